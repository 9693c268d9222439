#include "core/log_limit.h"

#include "test.h"

namespace atbus::detail {
namespace {

TEST(LogLimit, CountsTheLinesOfEachCause) {
  log_limit limit{1min, 3};
  EXPECT_EQ(limit.take(7, 1h), 3U);
  EXPECT_EQ(limit.take(7, 1h + 1s), 2U);
  EXPECT_EQ(limit.take(8, 1h + 2s), 3U);
  EXPECT_EQ(limit.take(7, 1h + 3s), 1U);
  EXPECT_EQ(limit.take(7, 1h + 4s), 0U);
  EXPECT_EQ(limit.take(7, 1h + 59s), 0U);
  EXPECT_EQ(limit.take(8, 1h + 59s), 2U);
}

TEST(LogLimit, BeginsAnewWithEachInterval) {
  log_limit limit{1min, 1};
  EXPECT_EQ(limit.take(7, 1h), 1U);
  EXPECT_EQ(limit.take(7, 1h + 59s), 0U);
  EXPECT_EQ(limit.take(7, 1h + 60s), 1U);
  EXPECT_EQ(limit.take(7, 1h + 61s), 0U);
}

TEST(LogLimit, HasNoLinesForMoreCausesThanItRemembers) {
  log_limit limit{1min, 2};
  for (std::uint64_t cause = 0; cause != log_limit::causes_max; ++cause)
    ASSERT_EQ(limit.take(cause, 1h), 2U);
  EXPECT_EQ(limit.take(log_limit::causes_max, 1h), 0U);
  EXPECT_EQ(limit.take(0, 1h), 1U);
  EXPECT_EQ(limit.take(log_limit::causes_max, 1h + 1min), 2U);
}

}  // namespace
}  // namespace atbus::detail
