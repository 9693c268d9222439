// When a receiver waits a moment before it reads.
#include "atbus/detail/hang_back.hpp"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t many = hang_back::streaming;  // messages that pay for a wait
constexpr std::size_t few = hang_back::streaming - 1;
constexpr std::size_t plenty = hang_back::long_streaming;  // that pay for a longer one
// So many that no timing makes another way faster.
constexpr std::size_t flood = std::size_t{1} << 50;

// Looks that bring nothing until the next wait is due.
std::uint32_t looks_until_due(hang_back& h) {
  std::uint32_t looks = 1;
  while (!h.due()) {
    h.learn(false, 0);
    ++looks;
  }
  return looks;
}

void trial(hang_back& h, std::size_t messages) {
  ASSERT_TRUE(h.due());
  h.learn(true, messages);
}

void wait_often(hang_back& h, std::size_t messages) {
  for (std::uint32_t i = 0; i < hang_back::timed_waits; ++i)
    trial(h, messages);
}

// Up to where the eager way is timed: short waits bring so many messages, and long ones.
void time_waiting(hang_back& h, std::size_t messages, std::size_t longer = plenty) {
  trial(h, many);
  wait_often(h, messages);
  wait_often(h, longer);
}
void time_eager(hang_back& h, std::size_t messages) {
  for (std::uint32_t i = 0; i < hang_back::timed_eager_looks; ++i) {
    ASSERT_FALSE(h.due()) << "look " << i;
    h.learn(false, messages);
  }
}

TEST(HangBack, TriesTheFirstLook) {
  hang_back h;
  EXPECT_TRUE(h.due());
}

// The poll ended in between, for its time or a handler that threw.
TEST(HangBack, TriesAgainIfItLearnsNothingOfATrial) {
  hang_back h;
  ASSERT_TRUE(h.due());
  for (int trial = 0; trial != 3; ++trial)
    EXPECT_LE(looks_until_due(h), hang_back::longest_pause);
}

TEST(HangBack, TriesEverMoreRarelyWhereWaitingBringsLittle) {
  hang_back h;
  ASSERT_EQ(looks_until_due(h), 1U);
  std::uint32_t pause = 1;
  for (int i = 0; i < 16; ++i) {
    h.learn(true, few);
    pause = std::min(2 * pause, hang_back::longest_pause);
    ASSERT_EQ(looks_until_due(h), pause) << "after trial " << i;
  }
  EXPECT_EQ(pause, hang_back::longest_pause);
}

TEST(HangBack, GoesOnWaitingWhereThatIsFaster) {
  hang_back h;
  time_waiting(h, flood);
  time_eager(h, 0);
  for (std::uint32_t i = 0; i + 1 < hang_back::waits_between_timings; ++i)
    trial(h, many);
}

TEST(HangBack, ReadsAtOnceWhereThatIsFaster) {
  hang_back h;
  time_waiting(h, many);
  time_eager(h, flood);
  EXPECT_EQ(looks_until_due(h), 2U);
}

TEST(HangBack, StopsWaitingWhenAWaitBringsLittleAndTriesAgainAtOnce) {
  hang_back h;
  time_waiting(h, flood);
  time_eager(h, 0);
  trial(h, many);
  trial(h, few);
  EXPECT_EQ(looks_until_due(h), 1U);
}

TEST(HangBack, TimesBothWaysAgainAfterAWhile) {
  hang_back h;
  time_waiting(h, flood);
  time_eager(h, 0);
  for (std::uint32_t i = 0; i < hang_back::waits_between_timings; ++i)
    trial(h, many);
  wait_often(h, many);
  wait_often(h, plenty);
  time_eager(h, flood);
  EXPECT_EQ(looks_until_due(h), 2U) << "the other way has become faster";
}

TEST(HangBack, WaitsAtLeastAMoment) {
  const hang_back h;
  const auto before = now();
  h.wait();
  EXPECT_GE(now() - before, hang_back::moment);
}

// The shortest of some, because another process may have run in between.
std::chrono::nanoseconds shortest_wait(const hang_back& h) {
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i != 1000; ++i) {
    const auto before = now();
    h.wait();
    shortest = std::min(shortest, now() - before);
  }
  return shortest;
}

TEST(HangBack, WaitsLongerWhereThatIsFaster) {
  hang_back h;
  time_waiting(h, many, flood);
  time_eager(h, 0);
  EXPECT_GE(shortest_wait(h), hang_back::long_moment);
  // The next timing begins with short ones, and so does what comes when the sender has stopped.
  for (std::uint32_t i = 0; i < hang_back::waits_between_timings; ++i)
    trial(h, plenty);
  EXPECT_LT(shortest_wait(h), hang_back::long_moment);
  wait_often(h, many);
  EXPECT_GE(shortest_wait(h), hang_back::long_moment);
  trial(h, few);
  EXPECT_LT(shortest_wait(h), hang_back::long_moment);
}

TEST(HangBack, WaitsNoLongerForWhatLongerWaitsBringTooLittleOf) {
  hang_back h;
  trial(h, many);
  wait_often(h, many);
  for (std::uint32_t i = 0; i != hang_back::poor_waits_most; ++i)
    trial(h, plenty - 1);
  trial(h, flood);
  trial(h, plenty - 1);  // one too many: it tries no more of them
  time_eager(h, 0);
  EXPECT_TRUE(h.due());
  EXPECT_LT(shortest_wait(h), hang_back::long_moment);
}

// The sender was interrupted once.
TEST(HangBack, GoesOnWaitingLongerBehindAWaitThatBringsLess) {
  hang_back h;
  time_waiting(h, many, flood);
  time_eager(h, 0);
  trial(h, many);
  EXPECT_GE(shortest_wait(h), hang_back::long_moment);
}

TEST(HangBack, WaitsNoLongerWhereThatIsNotFaster) {
  hang_back h;
  time_waiting(h, flood, plenty);
  time_eager(h, 0);
  EXPECT_LT(shortest_wait(h), hang_back::long_moment);
  EXPECT_TRUE(h.due());
}

}  // namespace
}  // namespace atbus::detail
