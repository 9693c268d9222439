// The number of a descriptor is free for other threads before its close has returned. A child that is forked
// then inherits what another thread has opened under that number.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "atbus/inspect.hpp"
#include "channel/handover/lane_pairing.h"
#include "child_process.h"
#include "loop_fixture.h"
#include "plain_socket.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

// The number that the next descriptor of this process gets.
int next_descriptor() {
  const detail::file free{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  return free.get();
}

// Another thread opens a file when the kernel has closed a certain descriptor, and then forks.
class CloseAndFork : public ::testing::Test {
 protected:
  CloseAndFork() {
    detail::kernel().close = [](int fd) {
      const int code = saved_.close(fd);
      if (fd == watched_)
        fork_elsewhere(std::exchange(watched_, -1));
      return code;
    };
  }
  ~CloseAndFork() override { detail::kernel() = saved_; }

  static void watch(int fd) { watched_ = fd; }
  // How the child ends if the watched descriptor is closed in `call`: "exit 0" if it has what was opened.
  static std::string fork_behind_the_close(const std::function<void()>& call) {
    end_of_child_ = "the descriptor was not closed";
    call();
    if (forker_.joinable())
      forker_.join();
    return end_of_child_;
  }

 private:
  static void fork_elsewhere(int number) {
    std::promise<void> promise;
    const auto has_forked = promise.get_future();
    forker_ = std::thread{[number, promise = std::move(promise)]() mutable {
      detail::file any{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
      const detail::file opened = any.get() == number
                                      ? std::move(any)
                                      : detail::file{::fcntl(any.get(), F_DUPFD_CLOEXEC, number)};
      test::child_process child{[&opened] {
        struct stat about {};
        return ::fstat(opened.get(), &about) == 0 && S_ISCHR(about.st_mode) ? 0 : 1;
      }};
      promise.set_value();
      end_of_child_ = opened.get() == number ? child.wait_end() : "it got another number";
    }};
    (void)has_forked.wait_for(100ms);  // a fork that has to wait goes on behind the close
  }

  inline static const detail::kernel_calls saved_ = detail::kernel();
  inline static int watched_ = -1;
  inline static std::thread forker_;
  inline static std::string end_of_child_;
};

TEST_F(CloseAndFork, OfAConnectionOfAReceiver) {
  auto inbox = receiver::open(fresh_unix_address() + "?shm=false");
  ASSERT_TRUE(inbox) << inbox.error().text();
  auto out = sender::open(inbox->address());
  ASSERT_TRUE(out) << out.error().text();
  const int accepted = next_descriptor();
  (void)inbox->poll([](bytes_view) {});
  ASSERT_EQ(inbox->stats().connections, 1U);
  out->close();
  watch(accepted);
  EXPECT_EQ(fork_behind_the_close([&] { (void)inbox->poll([](bytes_view) {}); }), "exit 0");
  EXPECT_EQ(inbox->stats().connections, 0U);
}

TEST_F(CloseAndFork, OfAConnectionThatIsCutOff) {
  recorded_set set;
  const std::string where = set.listen(fresh_unix_address());
  std::optional other_end{test::plain_socket::connect(where)};
  const int accepted = next_descriptor();
  set.set->poll();
  ASSERT_EQ(set.set->size(), 1U);
  other_end.reset();
  watch(accepted);
  EXPECT_EQ(fork_behind_the_close([&] { set.set->poll(); }), "exit 0");
}

class guarded_descriptor final : public detail::fork_guard {
 public:
  void abandon_in_child() noexcept override { held.reset(); }
  detail::file held;
};

TEST_F(CloseAndFork, OfAnyGuardedDescriptor) {
  std::optional<guarded_descriptor> guarded;
  {
    const detail::fork_pause no_fork;
    guarded.emplace();
    guarded->held = detail::file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  }
  watch(guarded->held.get());
  EXPECT_EQ(fork_behind_the_close([&] { guarded->held.reset(); }), "exit 0");
  const detail::fork_pause no_fork;
  guarded.reset();
}

// Offers a lane of no use, and tells the number of its segment's descriptor.
class offering_exchange final : public detail::lane_exchange {
 public:
  explicit offering_exchange(std::function<void(int)> offered = {})
      : offered_(std::move(offered)) {}
  result<ends> offer_lane(std::uint64_t) noexcept override {
    ends made{0, detail::file{::open("/dev/null", O_RDONLY | O_CLOEXEC)},
              detail::file{::open("/dev/null", O_RDONLY | O_CLOEXEC)}};
    if (offered_)
      offered_(made.segment.get());
    return made;
  }
  error take_lane(std::uint64_t, ends) noexcept override { return errc::no_free_lane; }
  void give_up(std::uint64_t, const error&) noexcept override {}

 private:
  std::function<void(int)> offered_;
};

TEST_F(CloseAndFork, OfALaneThatWasOffered) {
  offering_exchange of_acceptor{[](int segment) { watch(segment); }};
  offering_exchange of_dialler;
  recorded_set acceptor{{.lanes = &of_acceptor}};
  recorded_set dialler{{.lanes = &of_dialler}};
  dialler.connect(acceptor.listen(fresh_unix_address()));
  EXPECT_EQ(fork_behind_the_close([&] {
              (void)turn_until({&acceptor, &dialler},
                               [&] { return acceptor.opens == 1 && dialler.opens == 1; });
            }),
            "exit 0");
}

// Lanes of no use. When one is taken, another thread forks.
class forking_exchange final : public detail::lane_exchange {
 public:
  ~forking_exchange() { join(); }
  result<ends> offer_lane(std::uint64_t) noexcept override {
    return ends{0, detail::file{::open("/dev/null", O_RDONLY | O_CLOEXEC)},
                detail::file{::open("/dev/null", O_RDONLY | O_CLOEXEC)}};
  }
  error take_lane(std::uint64_t, ends theirs) noexcept override {
    std::promise<void> promise;
    const auto has_forked = promise.get_future();
    forker_ = std::thread{[this, promise = std::move(promise), segment = theirs.segment.get(),
                           bell = theirs.bell.get()]() mutable {
      test::child_process child{
          [=] { return ::fcntl(segment, F_GETFD) == -1 && ::fcntl(bell, F_GETFD) == -1 ? 0 : 1; }};
      promise.set_value();
      end_of_child_ = child.wait_end();
    }};
    (void)has_forked.wait_for(
        100ms);  // a fork that has to wait goes on when no descriptor is underway
    return errc::no_free_lane;
  }
  void give_up(std::uint64_t, const error&) noexcept override {}
  void join() {
    if (forker_.joinable())
      forker_.join();
  }
  [[nodiscard]] const std::string& end_of_child() {
    join();
    return end_of_child_;
  }

 private:
  std::thread forker_;
  std::string end_of_child_ = "no lane was taken";
};

TEST(ForkWhileLanesArePaired, LeavesTheChildNoneOfTheirDescriptors) {
  forking_exchange of_acceptor;
  forking_exchange of_dialler;
  recorded_set acceptor{{.lanes = &of_acceptor}};
  recorded_set dialler{{.lanes = &of_dialler}};
  dialler.connect(acceptor.listen(fresh_unix_address()));
  ASSERT_TRUE(
      turn_until({&acceptor, &dialler}, [&] { return acceptor.opens == 1 && dialler.opens == 1; }));
  EXPECT_EQ(of_dialler.end_of_child(), "exit 0");
}

// Another thread forks while a name is removed from its directory, which is open meanwhile.
class RemoveAndFork : public ::testing::Test {
 protected:
  RemoveAndFork() {
    detail::kernel().unlinkat = [](int directory, const char* name, int flags) {
      if (std::exchange(armed_, false))
        fork_elsewhere(directory);
      return saved_.unlinkat(directory, name, flags);
    };
  }
  ~RemoveAndFork() override { detail::kernel() = saved_; }

  // "exit 0" if the child did not have the directory.
  static std::string fork_in(const std::function<void()>& call) {
    end_of_child_ = "no name was removed";
    armed_ = true;
    call();
    if (forker_.joinable())
      forker_.join();
    return end_of_child_;
  }

 private:
  static void fork_elsewhere(int directory) {
    std::promise<void> promise;
    const auto has_forked = promise.get_future();
    forker_ = std::thread{[directory, promise = std::move(promise)]() mutable {
      test::child_process child{[=] {
        struct stat about {};
        return ::fstat(directory, &about) != 0 || !S_ISDIR(about.st_mode) ? 0 : 1;
      }};
      promise.set_value();
      end_of_child_ = child.wait_end();
    }};
    (void)has_forked.wait_for(
        100ms);  // a fork that has to wait goes on when the directory is closed
  }

  inline static const detail::kernel_calls saved_ = detail::kernel();
  inline static bool armed_ = false;
  inline static std::thread forker_;
  inline static std::string end_of_child_;
};

TEST_F(RemoveAndFork, OfAReceiverThatIsRemoved) {
  auto inbox = receiver::open("shm://fork-in-remove-" + std::to_string(getpid()));
  ASSERT_TRUE(inbox) << inbox.error().text();
  EXPECT_EQ(fork_in([&] { EXPECT_TRUE(inbox->remove()); }), "exit 0");
}

TEST_F(RemoveAndFork, OfASegmentThatIsCleaned) {
  const std::string name = "fork-in-clean-" + std::to_string(getpid());
  test::child_process left{[&] {
    auto inbox = receiver::open("shm://" + name);
    test::require(static_cast<bool>(inbox), "a receiver");
    raise(SIGKILL);
    return 0;
  }};
  ASSERT_EQ(left.wait_end(), "signal 9");
  EXPECT_EQ(fork_in([&] {
              const auto done = clean_segment(name);
              ASSERT_TRUE(done) << done.error().text();
              EXPECT_EQ(done->outcome, clean_outcome::removed);
            }),
            "exit 0");
}

TEST_F(CloseAndFork, OfABindingOnALoop) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  auto inbox = receiver::open("mem://close-and-fork");
  ASSERT_TRUE(inbox) << inbox.error().text();
  const int watched_by_loop = next_descriptor();
  auto bound = loop_receiver::attach(&loop, std::move(*inbox), [](bytes_view) {});
  ASSERT_TRUE(bound) << bound.error().text();
  watch(watched_by_loop);
  EXPECT_EQ(fork_behind_the_close([&] { bound->close(); }), "exit 0");
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
  if (auto last = receiver::open("mem://close-and-fork"))
    (void)last->remove();
}

}  // namespace
}  // namespace atbus
