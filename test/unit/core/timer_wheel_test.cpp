// The wheel against a plain list of deadlines.
#include "core/timer_wheel.h"

#include <map>
#include <random>

#include "test.h"

namespace atbus::detail {
namespace {

using std::chrono::nanoseconds;
constexpr nanoseconds tick{1 << 17};

struct numbered_timer : wheel_timer {
  int number = 0;
};

TEST(TimerWheel, TellsNothingEarlyAndAllWithinATick) {
  std::mt19937_64 random{7};
  timer_wheel wheel;
  wheel.prepare();
  std::vector<numbered_timer> timers(500);
  std::map<int, nanoseconds> waiting;
  nanoseconds now{123456789};
  for (int round = 0; round != 20000; ++round) {
    const auto which = static_cast<std::size_t>(random() % timers.size());
    timers[which].number = static_cast<int>(which);
    switch (random() % 4) {
      case 0:
        timers[which].cancel();
        waiting.erase(static_cast<int>(which));
        break;
      default: {
        // From the past up to several turns of the wheel.
        const nanoseconds due =
            now + nanoseconds{static_cast<std::int64_t>(random() >> (24 + random() % 40))} - 1us;
        wheel.set(timers[which], due, now);
        waiting[static_cast<int>(which)] = due;
      }
    }
    const nanoseconds earliest =
        waiting.empty()
            ? timer_queue::never
            : std::ranges::min_element(waiting, {}, [](auto& one) { return one.second; })->second;
    // It is told when to look: not long after the earliest.
    ASSERT_LE(wheel.next(), std::max(earliest, now) + 2 * tick) << round;
    now += nanoseconds{static_cast<std::int64_t>(random() >> (34 + random() % 30))};
    while (wheel_timer* const due = wheel.take_due(now)) {
      const int number = static_cast<numbered_timer*>(due)->number;
      ASSERT_TRUE(waiting.contains(number));
      ASSERT_LE(waiting[number], now);
      ASSERT_FALSE(due->pending());
      waiting.erase(number);
    }
    for (const auto& [number, due] : waiting)
      ASSERT_GT(due, now - 2 * tick);
  }
}

TEST(TimerWheel, TellsThoseOfOneTickInTheOrderInWhichTheyWereSet) {
  timer_wheel wheel;
  wheel.prepare();
  std::vector<numbered_timer> timers(10);
  for (std::size_t at = 0; at != 10; ++at) {
    timers[at].number = static_cast<int>(at);
    wheel.set(timers[at], 5ms, 0ns);
  }
  EXPECT_EQ(wheel.take_due(5ms - 1ns), nullptr);
  for (int at = 0; at != 10; ++at) {
    auto* const due = static_cast<numbered_timer*>(wheel.take_due(6ms));
    ASSERT_NE(due, nullptr);
    EXPECT_EQ(due->number, at);
  }
  EXPECT_EQ(wheel.take_due(6ms), nullptr);
  EXPECT_EQ(wheel.next(), timer_queue::never);
}

// A list of the wheel has deadlines of each turn that was missed.
TEST(TimerWheel, TellsInOrderAfterAPauseOfSeveralTurns) {
  std::mt19937_64 random{7};
  for (const nanoseconds pause :
       std::initializer_list<nanoseconds>{1ms, 200ms, 269ms, 300ms, 60s}) {
    timer_wheel wheel;
    wheel.prepare();
    std::vector<numbered_timer> timers(2000);
    std::map<int, nanoseconds> waiting;
    const nanoseconds began{123456789};
    for (numbered_timer& one : timers) {
      one.number = static_cast<int>(&one - timers.data());
      const nanoseconds due =
          began + nanoseconds{static_cast<std::int64_t>(
                      random() % static_cast<std::uint64_t>(2 * pause.count()))};
      wheel.set(one, due, began);
      waiting[one.number] = due;
    }
    nanoseconds until{0};
    int last = 0;
    while (wheel_timer* const due = wheel.take_due(began + pause)) {
      const int number = static_cast<numbered_timer*>(due)->number;
      const nanoseconds ends{(waiting[number] + tick - 1ns) / tick * tick};
      ASSERT_GE(ends, until) << pause.count();
      ASSERT_TRUE(ends != until || number > last) << "set later";
      waiting.erase(number);
      until = ends;
      last = number;
    }
    for (const auto& [number, due] : waiting)
      ASSERT_GT(due, began + pause - 2 * tick);
    for (std::size_t left = waiting.size(); left != 0; --left)
      ASSERT_NE(wheel.take_due(began + 3 * pause), nullptr);
    ASSERT_EQ(wheel.take_any(), nullptr);
  }
}

TEST(TimerWheel, DoesNotWakeForOneThatIsDueTurnsLater) {
  timer_wheel wheel;
  wheel.prepare();
  numbered_timer late;
  wheel.set(late, 1h, 0ns);
  EXPECT_GE(wheel.next(), 1h);
  EXPECT_LE(wheel.next(), 1h + tick);
  wheel.set(late, nanoseconds::max(), 0ns);
  EXPECT_EQ(wheel.take_due(24h * 365), nullptr);
  EXPECT_EQ(wheel.next(), timer_queue::never);
  EXPECT_EQ(wheel.take_any(), &late);
  EXPECT_EQ(wheel.take_any(), nullptr);
}

TEST(TimerWheel, OneThatIsDestroyedLeavesItWhileOthersAreToldOf) {
  timer_wheel wheel;
  wheel.prepare();
  auto first = std::make_unique<numbered_timer>();
  auto second = std::make_unique<numbered_timer>();
  auto third = std::make_unique<numbered_timer>();
  for (auto* one : {first.get(), second.get(), third.get()})
    wheel.set(*one, 1ms, 0ns);
  EXPECT_EQ(wheel.take_due(2ms), first.get());
  second.reset();
  EXPECT_EQ(wheel.take_due(2ms), third.get());
  EXPECT_EQ(wheel.take_due(2ms), nullptr);
}

}  // namespace
}  // namespace atbus::detail
