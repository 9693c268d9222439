#include "node/core/refusal_delay.h"

#include "test.h"

namespace atbus::detail {
namespace {

TEST(RefusalDelay, DoublesForEachWrongTokenUpToItsLongest) {
  refusal_delay delay;
  std::vector<std::chrono::nanoseconds> delays;
  for (int i = 0; i != 9; ++i)
    delays.push_back(delay.of_next("10.0.0.1", 1h + i * 1s));
  EXPECT_EQ(delays, (std::vector<std::chrono::nanoseconds>{0s, 100ms, 200ms, 400ms, 800ms, 1600ms,
                                                           3200ms, 4s, 4s}));
}

TEST(RefusalDelay, IsThatOfOneAddress) {
  refusal_delay delay;
  (void)delay.of_next("10.0.0.1", 1h);
  EXPECT_EQ(delay.of_next("10.0.0.2", 1h), 0s);
  EXPECT_EQ(delay.of_next("10.0.0.1", 1h), 100ms);
}

TEST(RefusalDelay, IsForgottenAfterAMinuteWithout) {
  refusal_delay delay;
  (void)delay.of_next("10.0.0.1", 1h);
  EXPECT_EQ(delay.of_next("10.0.0.1", 1h + 59s), 100ms);
  EXPECT_EQ(delay.of_next("10.0.0.1", 1h + 118s), 200ms);
  EXPECT_EQ(delay.of_next("10.0.0.1", 1h + 178s), 0s);
}

TEST(RefusalDelay, RemembersTheLatestThousand) {
  refusal_delay delay;
  (void)delay.of_next("the first", 1h);
  for (int i = 0; i != 1023; ++i)
    (void)delay.of_next(std::to_string(i), 1h + 1ms);
  EXPECT_EQ(delay.of_next("the first", 1h + 2ms), 100ms);
  (void)delay.of_next("one more", 1h + 3ms);
  EXPECT_EQ(delay.addresses(), 1024U);
  EXPECT_EQ(delay.of_next("the first", 1h + 4ms), 200ms);
  for (int i = 0; i != 100'000; ++i)
    (void)delay.of_next(std::to_string(i), 1h + 5ms);
  EXPECT_EQ(delay.addresses(), 1024U);
  (void)delay.of_next("after all that", 2h);
  EXPECT_EQ(delay.addresses(), 1U);
}

}  // namespace
}  // namespace atbus::detail
