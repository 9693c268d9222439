#include "atbus/clock.hpp"

#include <time.h>

#include "test.h"

namespace atbus {
namespace {

TEST(Clock, NeverGoesBack) {
  auto before = now();
  for (int i = 0; i < 1000; ++i) {
    const auto after = now();
    ASSERT_GE(after, before);
    before = after;
  }
}

TEST(Clock, MovesOn) {
  const auto start = now();
  // Bounded by readings, not by time: each takes nanoseconds, so a clock that stands still ends the
  // loop.
  int readings = 0;
  while (now() == start && readings < 1'000'000)
    ++readings;
  EXPECT_GT(now(), start);
}

TEST(Clock, IsTheOneTheKernelCallsMonotonic) {
  timespec time{};
  const auto before = now();
  ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &time), 0);
  const auto after = now();
  const auto kernel = std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  EXPECT_LE(before, kernel);
  EXPECT_GE(after, kernel);
}

TEST(Clock, CoarseIsNeverAheadAndAtMostATickBehind) {
  // Ticks are 1 to 10 ms. A virtual machine that was not running itself may have missed many, so
  // ten seconds for one reading that is as fresh as that.
  const auto deadline = now() + 10s;
  bool fresh = false;
  while (!fresh && now() < deadline) {
    const auto before = now();
    const auto coarse = coarse_now();
    ASSERT_LE(coarse, now());
    fresh = coarse > before - 20ms;
  }
  EXPECT_TRUE(fresh);
}

TEST(ClockSource, OfTheSystemReadsTheMonotonicClock) {
  const clock_source& clock = system_clock_source();
  const auto before = now();
  const auto read = clock.now();
  const auto after = now();
  EXPECT_LE(before, read);
  EXPECT_LE(read, after);
}

TEST(ManualClock, StandsStillUntilMoved) {
  manual_clock clock{5s};
  const clock_source& source = clock;
  EXPECT_EQ(source.now(), 5s);
  EXPECT_EQ(source.now(), 5s);
  clock.advance(20ms);
  EXPECT_EQ(source.now(), 5020ms);
}

TEST(ManualClock, StartsAtZero) {
  EXPECT_EQ(manual_clock{}.now(), 0ns);
}

TEST(MomentAfter, IsNeverBeyondTheLastMomentNorBeforeTheFirst) {
  constexpr auto max = std::chrono::nanoseconds::max();
  EXPECT_EQ(moment_after(5s, 1s), 6s);
  EXPECT_EQ(moment_after(5s, 0s), 5s);
  EXPECT_EQ(moment_after(5s, 1ns), 5s + 1ns);
  EXPECT_EQ(moment_after(5s, -1s), 5s);
  EXPECT_EQ(moment_after(5s, std::chrono::nanoseconds::min()), 5s);
  EXPECT_EQ(moment_after(5s, max - 5s), max);
  EXPECT_EQ(moment_after(5s, max - 5s + 1ns), max);
  EXPECT_EQ(moment_after(5s, max), max);
  EXPECT_EQ(moment_after(max, max), max);
  EXPECT_EQ(moment_after(0s, max), max);
}

}  // namespace
}  // namespace atbus
