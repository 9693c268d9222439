// What is due when.
#include "core/timer_queue.h"
#include "test.h"

namespace atbus::detail {
namespace {

// Timers that write down their numbers when they are due.
struct timers_of {
  explicit timers_of(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(std::make_unique<timer>(queue, [this, i] { ran.push_back(i); }));
  }

  timer_queue queue;
  std::vector<std::size_t> ran;
  std::vector<std::unique_ptr<timer>> all;
};

TEST(TimerQueue, RunsWhatIsDueInTheOrderOfTimeThenOfSetting) {
  timers_of timers{4};
  timers.all[3]->set(5ns);
  timers.all[2]->set(5ns);
  timers.all[1]->set(3ns);
  timers.all[0]->set(6ns);
  EXPECT_EQ(timers.queue.next(), 3ns);
  timers.queue.run(5ns);
  EXPECT_EQ(timers.ran, (std::vector<std::size_t>{1, 3, 2}));
  EXPECT_EQ(timers.queue.next(), 6ns);
}

// Each is set, set again, cancelled and destroyed at random; the times are few, so that many are equal.
TEST(TimerQueue, KeepsItsOrderWhateverLeavesIt) {
  std::mt19937_64 random{1};
  timers_of timers{200};
  using key = std::pair<std::chrono::nanoseconds, std::size_t>;  // and what number the setting had
  std::vector<std::pair<key, std::size_t>> expected;
  const auto forget = [&](std::size_t which) {
    std::erase_if(expected, [&](const auto& one) { return one.second == which; });
  };
  for (std::size_t i = 0; i < 5000; ++i) {
    const std::size_t which = random() % 200;
    if (timers.all[which] == nullptr)
      continue;
    forget(which);
    if (random() % 4 == 0) {
      timers.all[which]->cancel();
    } else if (random() % 100 == 0) {
      timers.all[which].reset();
    } else {
      const std::chrono::nanoseconds due{random() % 30};
      timers.all[which]->set(due);
      expected.push_back({{due, i}, which});
    }
  }
  std::sort(expected.begin(), expected.end());
  ASSERT_GT(expected.size(), 50U);
  for (std::size_t i = 0; i < 200; ++i) {
    const bool pending = std::any_of(expected.begin(), expected.end(),
                                     [&](const auto& one) { return one.second == i; });
    EXPECT_EQ(timers.all[i] != nullptr && timers.all[i]->pending(), pending);
  }
  timers.queue.run(30ns);
  std::vector<std::size_t> order;
  for (const auto& one : expected)
    order.push_back(one.second);
  EXPECT_EQ(timers.ran, order);
  EXPECT_EQ(timers.queue.next(), timer_queue::never);
}

// It may set itself again, for a time that is over, and does not run for ever.
TEST(TimerQueue, RunsNoneTwiceAtATime) {
  timer_queue queue;
  int runs = 0;
  timer again{queue, nullptr};
  again.replace([&] {
    ++runs;
    again.set(1ns);
  });
  again.set(1ns);
  queue.run(2ns);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(again.pending());
}

}  // namespace
}  // namespace atbus::detail
