// What a handler of on_problem may do: close or destroy its receiver, replace itself, fork. It is
// told between two steps of the receiver, wherever the problem was found.
#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

enum class place : std::uint8_t { wait, endless_wait, prepare_sleep, poll, late_handler };

class ProblemHandler : public hostile_channel, public ::testing::WithParamInterface<place> {
 protected:
  // Two lanes with impossible tails, noticed in `GetParam()`.
  void meet_problems(std::function<void(const error&)> handler) {
    inbox_ = std::make_unique<receiver>(open_receiver());
    sender one = open_sender();
    sender other = open_sender();
    std::vector<std::string> got;
    ASSERT_TRUE(one.send(as_bytes("one")));
    ASSERT_TRUE(other.send(as_bytes("other")));
    ASSERT_TRUE(poll_until(*inbox_, got, [&] { return got.size() == 2; }));
    const raw_segment file = raw();
    file.slot(0).tail.fetch_add(4);
    file.slot(1).tail.fetch_add(4);
    if (GetParam() == place::late_handler) {
      inbox_->on_problem({});
      inbox_->poll([](bytes_view) {});
      return inbox_->on_problem(std::move(handler));
    }
    inbox_->on_problem(std::move(handler));
    switch (GetParam()) {
      case place::wait:
        (void)inbox_->wait(0ms);
        break;
      case place::endless_wait:
        (void)inbox_->wait(-1ms);
        break;
      case place::prepare_sleep:
        (void)inbox_->prepare_sleep();
        break;
      default:
        inbox_->poll([](bytes_view) {});
    }
  }

  std::unique_ptr<receiver> inbox_;
};

TEST_P(ProblemHandler, MayDestroyItsReceiver) {
  ATBUS_IN_CHILD([this] {
    int told = 0;
    meet_problems([this, &told](const error& e) {
      ++told;
      EXPECT_TRUE(e == errc::quarantined) << e.text();
      inbox_.reset();
    });
    EXPECT_EQ(told, 1) << "who has closed it is told no more";
    EXPECT_TRUE(receiver::open("shm://victim", receiving())) << "the lock is still held";
  });
}

TEST_P(ProblemHandler, MayFork) {
  ATBUS_IN_CHILD([this] {
    int told = 0;
    const pid_t parent = getpid();
    const auto fork_once = [&told](const error&) {
      if (++told > 1)
        return;
      const pid_t child = fork();
      int state = 0;
      if (child != 0) {
        EXPECT_TRUE(waitpid(child, &state, 0) == child && state == 0) << "state " << state;
      }
    };
    if (GetParam() == place::endless_wait) {
      // Ends it in the parent.
      meet_problems([this, fork_once](const error& e) {
        fork_once(e);
        const raw_segment file = raw();
        file.header().ready[0].fetch_or(4);
      });
    } else {
      meet_problems(fork_once);
    }
    if (getpid() != parent) {
      if (told != 1 || inbox_->wait(0ms) != errc::used_after_fork)
        _exit(1);
      inbox_.reset();
      _exit(0);
    }
    EXPECT_EQ(told, 2);
    EXPECT_TRUE(inbox_->is_open());
  });
}

TEST_P(ProblemHandler, MayReplaceItself) {
  if (GetParam() == place::endless_wait)
    GTEST_SKIP() << "nothing ends it";
  int first = 0;
  int second = 0;
  auto kept = std::make_shared<int>(0);
  meet_problems([this, &first, &second, kept](const error&) {
    inbox_->on_problem([&second](const error&) { ++second; });
    ++first;
    ++*kept;  // what it captured lasts until it returns
  });
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

std::string place_name(const ::testing::TestParamInfo<place>& of) {
  constexpr const char* names[] = {"Wait", "EndlessWait", "PrepareSleep", "Poll", "LateHandler"};
  return names[static_cast<std::size_t>(of.param)];
}

INSTANTIATE_TEST_SUITE_P(All, ProblemHandler,
                         ::testing::Values(place::wait, place::endless_wait, place::prepare_sleep,
                                           place::poll, place::late_handler),
                         place_name);

}  // namespace
}  // namespace atbus::hostile
