#include "atbus/bench/statistics.h"

#include "test.h"

namespace atbus::bench {
namespace {

TEST(Spread, TakesTheMiddleOfAnOddNumber) {
  const spread found = spread_of({3, 1, 2});
  EXPECT_EQ(found.median, 2);
  EXPECT_EQ(found.min, 1);
  EXPECT_EQ(found.max, 3);
}

TEST(Spread, TakesTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(spread_of({4, 1, 2, 10}).median, 3);
}

TEST(Spread, IsZeroForNothing) {
  const spread found = spread_of({});
  EXPECT_EQ(found.median, 0);
  EXPECT_EQ(found.max, 0);
}

}  // namespace
}  // namespace atbus::bench
