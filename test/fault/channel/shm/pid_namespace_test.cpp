// Processes that can't see each other: each is process 1 of a pid namespace of its own.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "fault/channel/drill.h"

namespace atbus::test {
namespace {

enum role : std::uint32_t { session, heir, listener, rival, successor };

bool write_file(const char* path, const std::string& text) {
  std::FILE* const file = std::fopen(path, "we");
  if (file == nullptr)
    return false;
  const bool written = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && written;
}

// The next child of this process begins a pid namespace. "" or what the kernel refuses.
std::string leave_pid_namespace() {
  if (unshare(CLONE_NEWPID) == 0)
    return {};
  const std::string refused = std::string{"unshare(CLONE_NEWPID): "} + std::strerror(errno);
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
    return refused + ", with CLONE_NEWUSER: " + std::strerror(errno);
  // Segments belong to a user: it keeps its name.
  if (!write_file("/proc/self/setgroups", "deny") ||
      !write_file("/proc/self/uid_map", uid + " " + uid + " 1") ||
      !write_file("/proc/self/gid_map", gid + " " + gid + " 1")) {
    return "can't keep the user id in a user namespace";
  }
  return {};
}

class PidNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    shared<std::array<char, 256>> reason;
    child_process probe{[&reason] {
      const std::string refused = leave_pid_namespace();
      std::strncpy(reason->data(), refused.c_str(), reason->size() - 1);
      return 0;
    }};
    ASSERT_EQ(probe.wait_end(), "exit 0");
    if (reason->front() != '\0')
      GTEST_SKIP() << "the kernel allows no pid namespaces here: " << reason->data();
  }

  // Runs `body` as process 1 of a new namespace. The process that is returned stands for it: it ends
  // as the other one does, and takes it along when it is killed.
  child_process start_apart(std::uint32_t role, std::function<void()> body) {
    return world.start(role, [body = std::move(body)] {
      const std::string refused = leave_pid_namespace();
      require(refused.empty(), refused);
      const pid_t inner = fork();
      require(inner >= 0, "fork");
      if (inner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        require(getpid() == 1, "not in a namespace of its own");
        body();
        _exit(0);
      }
      int status = 0;
      while (waitpid(inner, &status, 0) < 0 && errno == EINTR) {
      }
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    });
  }

  child_process start_receiver_apart(std::uint32_t role) {
    return start_apart(role, [this, role] {
      auto inbox = required(world.open_receiver());
      world.memory().receiver_role.set(role);
      world.memory().opened[role].add();
      world.run_receiver(*inbox, role);
    });
  }
  child_process start_sender_apart(std::uint32_t role, std::function<void(sender&)> body) {
    return start_apart(role, [this, role, body = std::move(body)] {
      auto out = required(world.open_sender());
      world.memory().opened[role].add();
      body(*out);
    });
  }
  void wait_to_be_killed(std::uint32_t role) const {
    world.memory().may_go_on[role].add();
    require(world.memory().may_go_on[role].wait(1000), "should have been killed");
  }
  [[nodiscard]] std::uint32_t times(std::uint32_t role, step s) const {
    return world.plan(role).passed[static_cast<std::size_t>(s)].get();
  }

  drill world{1};
};

TEST_F(PidNamespaces, SeparateProcessesThatSendWakeAndMakeRoomForEachOther) {
  child_process inbox = start_receiver_apart(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = start_sender_apart(session, [this](sender& s) {
    require(s.receiver_alive(), "the receiver lives");
    world.talk(s, session, 100, 4);    // to a receiver that sleeps between them
    world.talk(s, session, 200, 100);  // more than the lane holds
    require(s.receiver_alive(), "the receiver still lives");
  });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(session));
  EXPECT_GT(times(listener, step::sleep_checked), 0U);
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
  EXPECT_TRUE(world.directory().files().empty());
}

TEST_F(PidNamespaces, SeparateTwoReceiversOfWhichTheSecondIsRefused) {
  child_process inbox = start_receiver_apart(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process second = start_apart(rival, [this] {
    const auto refused = world.open_receiver();
    require(!refused && refused.error() == errc::receiver_exists, "two receivers");
    // Its number in its own namespace, where it is as good as any.
    require(refused.error().text().find("pid 1,") != std::string::npos, refused.error().text());
  });
  EXPECT_EQ(second.wait_end(), "exit 0");
  child_process out =
      start_sender_apart(session, [this](sender& s) { world.talk(s, session, 10, 4); });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(session));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

TEST_F(PidNamespaces, SeparateASenderWhoseDeathFreesItsLane) {
  child_process inbox = start_receiver_apart(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  auto& freed = world.plan(listener).passed[static_cast<std::size_t>(step::orphan_released)];
  for (std::uint32_t i = 1; i <= 5; ++i) {
    child_process out = start_sender_apart(session, [this](sender& s) {
      world.talk(s, session, 10, 4);
      wait_to_be_killed(session);
    });
    ASSERT_TRUE(world.memory().may_go_on[session].wait(i));
    // The lane is the only one, and its owner lives.
    child_process refused = start_apart(heir, [this] {
      const auto other = world.open_sender();
      require(!other && other.error() == errc::no_free_lane, "two senders in one lane");
    });
    EXPECT_EQ(refused.wait_end(), "exit 0");
    out.kill_and_wait();
    ASSERT_TRUE(freed.wait(i)) << "nobody noticed death " << i;
    EXPECT_TRUE(world.wait_all_arrived(session));
  }
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

TEST_F(PidNamespaces, SeparateAReceiverWhoseDeathItsSenderSeesAndWhoseSuccessorGoesOn) {
  child_process inbox = start_receiver_apart(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = start_sender_apart(session, [this](sender& s) {
    world.talk(s, session, 10, 4);
    require(s.receiver_alive(), "it lives");
    world.memory().may_go_on[session].add();
    // It is process 1, as we are: a number would say that it lives.
    const auto end = std::chrono::steady_clock::now() + patience;
    while (s.receiver_alive())
      require(std::chrono::steady_clock::now() < end, "its death is not seen");
    for (int i = 0; i < 5; ++i)
      require(static_cast<bool>(world.send_next(s, session)), "a lane needs no receiver");
    world.memory().may_go_on[session].add();
    require(world.memory().opened[successor].wait(), "no successor");
    require(s.receiver_alive(), "its successor lives");
    world.talk(s, session, 20, 4);
  });
  ASSERT_TRUE(world.memory().may_go_on[session].wait(1));
  ASSERT_TRUE(world.wait_all_arrived(session));
  ASSERT_TRUE(world.plan(listener).asleep.wait(1));
  inbox.kill_and_wait();
  ASSERT_TRUE(world.memory().may_go_on[session].wait(2));
  inbox = start_receiver_apart(successor);
  ASSERT_TRUE(world.wait_opened(successor));
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(session));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(1), "");
}

}  // namespace
}  // namespace atbus::test
