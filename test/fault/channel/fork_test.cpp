// Processes that fork, or become another program, while they hold ends of a channel.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "drill.h"
#include "numbered_message.h"
#include "system/kernel.h"

namespace atbus::test::forking {
namespace {

enum role : std::uint32_t { forker, newcomer, listener, successor };

// Forks; says in the parent how the child ended. Called in a process of a drill.
int status_of_fork(const std::function<void()>& in_child) {
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    in_child();
    _exit(0);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid");
  return status;
}

// A child that holds what it inherited, longer than its parent lives. It ends with the test, whose
// end of the pipe closes then.
class lifetime_pipe {
 public:
  lifetime_pipe() { require(pipe2(ends_, O_CLOEXEC) == 0, "pipe"); }
  ~lifetime_pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  lifetime_pipe(const lifetime_pipe&) = delete;
  lifetime_pipe& operator=(const lifetime_pipe&) = delete;

  // Returns when the child has come back from fork: until then it holds all that its parent holds.
  void leave_a_child_behind() const {
    int begun[2];
    require(pipe(begun) == 0, "pipe");
    char byte = 0;
    if (fork() != 0) {
      close(begun[1]);
      require(read(begun[0], &byte, 1) == 1, "the child has not begun");
      close(begun[0]);
      return;
    }
    (void)!write(begun[1], "b", 1);
    (void)!read(ends_[0], &byte, 1);
    _exit(0);
  }
  // In a process other than the test: else the child would wait for it.
  void leave_to_the_test() const { close(ends_[1]); }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Fork, LeavesTheChildASenderThatSaysSo) {
  drill world{2};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(forker, [&world](sender& s) {
    world.talk(s, forker, 5, 100);
    const int status = status_of_fork([&s] {
      std::array<std::byte, 40> bytes{};
      require(s.send(bytes) == errc::used_after_fork, "send");
      require(s.claim(8).why() == errc::used_after_fork, "claim");
      require(s.batch().send(bytes) == errc::used_after_fork, "batch");
      require(s.wait_writable(patience) == errc::used_after_fork, "wait_writable");
      require(!s.prepare_sleep() && s.descriptor() < 0 && !s.receiver_alive(), "sleep");
      auto back = s.take_back([](bytes_view, errc) {});
      require(!back && back.error() == errc::used_after_fork, "take_back");
      (void)s.stats();
      s.close();
    });
    require(status == 0, "the child failed");
    world.talk(s, forker, 15);
  });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(forker, 20));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

TEST(Fork, LeavesTheChildAReceiverThatSaysSo) {
  drill world{2};
  child_process inbox = world.start(listener, [&world] {
    auto in = required(world.open_receiver());
    const int status = status_of_fork([&in] {
      require(in->poll([](bytes_view) {}) == 0, "poll");
      require(in->wait(patience) == errc::used_after_fork, "wait");
      require(!in->prepare_sleep() && in->descriptor() < 0 && !in->is_open(), "sleep");
      require(in->remove() == errc::used_after_fork, "remove");
      (void)in->stats();
    });
    require(status == 0, "the child failed");
    world.memory().receiver_role.set(listener);
    world.memory().opened[listener].add();
    world.run_receiver(*in, listener);
  });
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out =
      world.start_sender(forker, [&world](sender& s) { world.talk(s, forker, 20); });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(forker, 20));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

// What was begun before the fork ends in the child as it would at any time, and reaches nobody.
TEST(Fork, LetsTheChildUnwindAnOpenBatchAndAnOpenSlot) {
  drill world{2};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(forker, [&world](sender& s) {
    int status = 0;
    {
      std::optional<message_batch> batch{s.batch()};
      std::array<std::byte, message_size> bytes;
      write_message(bytes, forker, 1);
      require(static_cast<bool>(batch->send(bytes)), "batch");
      status = status_of_fork([&batch] { batch.reset(); });
      require(status == 0, "the child died of its batch");
    }
    world.memory().accepted[forker].add();
    auto slot = s.claim(message_size);
    require(static_cast<bool>(slot), "claim");
    write_message(slot.bytes(), forker, 2);
    status = status_of_fork([&slot] { slot.commit(); });
    require(status == 0, "the child died of its slot");
    slot.commit();
    world.memory().accepted[forker].add();
  });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(forker, 2));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

TEST(Fork, DoesNotHideTheDeathOfASender) {
  const lifetime_pipe instance;
  drill world{1};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(forker, [&world, &instance](sender& s) {
    world.talk(s, forker, 5, 100);
    instance.leave_to_the_test();
    instance.leave_a_child_behind();
    world.memory().may_go_on[forker].add();
    require(world.memory().may_go_on[forker].wait(2), "the sender should have been killed");
  });
  ASSERT_TRUE(world.memory().may_go_on[forker].wait());
  out.kill_and_wait();
  EXPECT_TRUE(world.plan(listener).passed[static_cast<std::size_t>(step::orphan_released)].wait());
  child_process next =
      world.start_sender(newcomer, [&world](sender& s) { world.talk(s, newcomer, 5); });
  EXPECT_EQ(next.wait_end(), "exit 0");
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

TEST(Fork, DoesNotHideTheDeathOfAReceiver) {
  const lifetime_pipe instance;
  drill world{1};
  child_process inbox = world.start(listener, [&world, &instance] {
    auto in = required(world.open_receiver());
    instance.leave_to_the_test();
    instance.leave_a_child_behind();
    world.memory().opened[listener].add();
    require(world.memory().may_go_on[listener].wait(), "the receiver should have been killed");
  });
  ASSERT_TRUE(world.wait_opened(listener));
  // Fills its lane, and waits for a successor to make room.
  child_process out =
      world.start_sender(forker, [&world](sender& s) { world.talk(s, forker, 30, 100); });
  ASSERT_TRUE(world.plan(forker).passed[static_cast<std::size_t>(step::request_checked)].wait());
  inbox.kill_and_wait();
  inbox = world.start_receiver(successor);
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(forker, 30));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(1), "");
}

// The child comes back from the handler, and its poll ends; the parent's goes on.
TEST(Fork, InAHandlerLeavesTheParentUndisturbed) {
  drill world{2};
  child_process inbox = world.start(listener, [&world] {
    auto in = required(world.open_receiver());
    world.memory().opened[listener].add();
    std::uint64_t last = 0;
    const pid_t parent = getpid();
    while (last < 20) {
      const std::size_t n = in->poll([&](bytes_view bytes) {
        message_stamp stamp;
        require(read_message(bytes, stamp) && stamp.number == last + 1, "not the next message");
        last = stamp.number;
        const pid_t child = fork();
        int status = 0;
        if (child != 0)
          require(waitpid(child, &status, 0) == child && status == 0, "the child failed");
      });
      if (getpid() != parent) {
        require(n >= 1, "the message in hand counts");
        require(in->poll([](bytes_view) {}) == 0, "poll");
        require(in->wait(patience) == errc::used_after_fork, "wait");
        in->close();
        _exit(0);
      }
      if (n == 0)
        require(static_cast<bool>(in->wait(patience)), "wait");
    }
  });
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out =
      world.start_sender(forker, [&world](sender& s) { world.talk(s, forker, 20, 100); });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_EQ(inbox.wait_end(), "exit 0");
}

// Becoming another program is a death, although the process lives on.
TEST(Exec, InAHandlerCountsAsTheDeathOfTheReceiver) {
  drill world{2};
  child_process inbox = world.start(listener, [&world] {
    auto in = required(world.open_receiver());
    world.memory().opened[listener].add();
    for (;;) {
      require(static_cast<bool>(in->wait(patience)), "wait");
      in->poll([&world](bytes_view bytes) {
        message_stamp stamp;
        require(read_message(bytes, stamp), "torn");
        if (stamp.number == 3) {
          world.memory().may_go_on[listener].add();
          execl("/bin/sleep", "sleep", "60", nullptr);
          require(false, "exec");
        }
        world.memory().ledger[world.memory().deliveries.get()] = {stamp.sender, listener,
                                                                  stamp.number, false};
        world.memory().deliveries.add();
      });
    }
  });
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out =
      world.start_sender(forker, [&world](sender& s) { world.talk(s, forker, 30, 100); });
  ASSERT_TRUE(world.memory().may_go_on[listener].wait());
  // The exec is over when the sender learns of it; until then it is a living receiver.
  child_process next = world.start(successor, [&world] {
    auto in = world.open_receiver();
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!in && std::chrono::steady_clock::now() < end) {
      require(in.error() == errc::receiver_exists, in.error().text());
      const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
      nanosleep(&pause, nullptr);
      in = world.open_receiver();
    }
    require(static_cast<bool>(in), "the program that replaced it still holds the lock");
    world.memory().opened[successor].add();
    world.run_receiver(*in, successor);
  });
  ASSERT_TRUE(world.wait_opened(successor));
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(forker, 30));
  EXPECT_EQ(world.dismiss(next), "exit 0");
  EXPECT_EQ(world.account(1), "");
  EXPECT_EQ(world.marked(), 1U);
}

TEST(Exec, CountsAsTheDeathOfTheSender) {
  drill world{1};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(forker, [&world](sender& s) {
    world.talk(s, forker, 5, 100);
    execl("/bin/sleep", "sleep", "60", nullptr);
  });
  EXPECT_TRUE(world.plan(listener).passed[static_cast<std::size_t>(step::orphan_released)].wait());
  child_process next =
      world.start_sender(newcomer, [&world](sender& s) { world.talk(s, newcomer, 5); });
  EXPECT_EQ(next.wait_end(), "exit 0");
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

// A receiver that frees lanes holds their locks for a moment, which may be long where it does not get
// the processor; a lock that somebody keeps does not end.
sender open_when_free(const drill& world) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto s = world.open_sender();
    if (s)
      return std::move(*s);
    require(s.error() == errc::no_free_lane && std::chrono::steady_clock::now() < deadline,
            s.error().text());
  }
}

// A thread opens and closes while another forks: no child may keep a lock that its parent has
// given up, and no child may die of a half-made object.
TEST(Fork, WhileAnotherThreadOpensAndClosesKeepsNoLock) {
  constexpr std::uint32_t lanes = 4;
  drill world{lanes};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start(forker, [&world] {
    std::atomic<bool> stop{false};
    std::thread opener{[&] {
      while (!stop.load()) {
        open_when_free(world).close();
      }
    }};
    int gate[2];
    require(pipe2(gate, O_CLOEXEC) == 0, "pipe");
    std::vector<pid_t> children;
    for (int i = 0; i < 100; ++i) {
      const pid_t child = fork();
      require(child >= 0, "fork");
      if (child == 0) {
        close(gate[1]);
        char byte = 0;
        require(read(gate[0], &byte, 1) == 0, "read");
        _exit(0);
      }
      children.push_back(child);
    }
    stop.store(true);
    opener.join();
    {
      // All children live: whatever they kept is missing here.
      std::vector<sender> all;
      for (std::uint32_t i = 0; i < lanes; ++i)
        all.push_back(open_when_free(world));
    }
    close(gate[1]);
    for (const pid_t child : children) {
      int status = 0;
      require(waitpid(child, &status, 0) == child && status == 0, "a child died");
    }
  });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
}

// One of them is always in a pause, but a fork that waits comes before those that begin later.
TEST(Fork, IsNotKeptWaitingByThreadsThatOpenAndClose) {
  constexpr std::uint32_t openers = 6;
  drill world{openers + 1};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start(forker, [&world] {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < openers; ++i) {
      threads.emplace_back([&] {
        while (!stop.load())
          (void)world.open_sender();
      });
    }
    for (int i = 0; i < 10; ++i)
      require(status_of_fork([] {}) == 0, "a child died");
    world.memory().may_go_on[forker].add();
    stop.store(true);
    for (std::thread& t : threads)
      t.join();
  });
  EXPECT_TRUE(world.memory().may_go_on[forker].wait()) << "no fork in all that time";
  if (world.memory().may_go_on[forker].get() == 0)
    out.kill_and_wait();
  else
    EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
}

// What a handler of the user's holds is destroyed with its channel, and may fork like any code.
TEST(Fork, InADestructorOfWhatAHandlerHolds) {
  drill world{1};
  child_process process = world.start(forker, [&world] {
    int forks = 0;
    const auto forking = [&forks] {
      return std::shared_ptr<void>{nullptr, [&forks](void*) {
                                     require(status_of_fork([] {}) == 0, "a child died");
                                     ++forks;
                                   }};
    };
    auto in = required(world.open_receiver());
    auto out = required(world.open_sender());
    in->on_problem([held = forking()](const error&) {});
    out->on_writable([held = forking()] {});
    out->close();
    in->close();
    require(forks == 2, "they still live");
    world.memory().may_go_on[forker].add();
  });
  EXPECT_TRUE(world.memory().may_go_on[forker].wait()) << "it waits for itself";
  if (world.memory().may_go_on[forker].get() == 0)
    process.kill_and_wait();
  else
    EXPECT_EQ(process.wait_end(), "exit 0");
}

// A signal handler may come in the middle of an open. The system call stands for it.
TEST(Fork, InASignalHandlerWhileItsThreadOpensLeavesTheParentUndisturbed) {
  drill world{1};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start(forker, [&world] {
    static bool forked = false;
    static const auto fallocate = detail::kernel().fallocate;
    detail::kernel().fallocate = [](int fd, int mode, off_t offset, off_t length) {
      if (!std::exchange(forked, true))
        require(status_of_fork([] {}) == 0, "a child died");
      return fallocate(fd, mode, offset, length);
    };
    auto s = world.open_sender();
    require(static_cast<bool>(s) && forked, s ? "" : s.error().text());
    world.talk(*s, forker, 5, 100);
    require(status_of_fork([&s] { require(!s->prepare_sleep(), "usable"); }) == 0,
            "the next child died");
    world.memory().may_go_on[forker].add();
  });
  EXPECT_TRUE(world.memory().may_go_on[forker].wait()) << "it waits for itself";
  if (world.memory().may_go_on[forker].get() == 0)
    out.kill_and_wait();
  else
    EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
}

}  // namespace
}  // namespace atbus::test::forking
