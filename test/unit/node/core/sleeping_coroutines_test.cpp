#include "node/core/sleeping_coroutines.h"

#include <algorithm>
#include <coroutine>
#include <deque>

#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class SleepingCoroutines : public parts_of_a_node {
 protected:
  SleepingCoroutines() {
    for (int i = 0; i != 100; ++i) {
      sleeper& one = sleepers.emplace_back(nullptr, 0ns);
      one.waiting = std::noop_coroutine();
      EXPECT_EQ(part.add(one, 0ns), errc::ok);
      one.result = errc::would_block;
    }
    clock.advance(1s);
  }
  [[nodiscard]] std::ptrdiff_t woken() const {
    return std::ranges::count(sleepers, errc::ok, &sleeper::result);
  }

  sleeping_coroutines part{node};
  std::deque<sleeper> sleepers;
};

TEST_F(SleepingCoroutines, WakeAllWhoseTimeIsOver) {
  EXPECT_TRUE(part.resume_due(clock.now()));
  EXPECT_EQ(woken(), 100);
}

TEST_F(SleepingCoroutines, WakeNoMoreThanThePollHasTimeFor) {
  node.progress.deadline = clock.now();
  EXPECT_TRUE(part.resume_due(clock.now()));
  EXPECT_EQ(woken(), static_cast<std::ptrdiff_t>(poll_progress::per_look));
  EXPECT_LE(part.next(), clock.now()) << "the others wake in the next poll";
  for (int polls = 0; woken() != 100 && polls != 100; ++polls)
    EXPECT_TRUE(part.resume_due(clock.now()));
  EXPECT_EQ(woken(), 100);
}

}  // namespace
}  // namespace atbus::detail
