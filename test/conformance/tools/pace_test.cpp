#include "atbus/bench/pace.h"

#include "test.h"

namespace atbus::bench {
namespace {

TEST(Pace, SpreadsMessagesEvenlyOverTheSecond) {
  workload work;
  work.rate = 1000;
  const pace plan{work, 500};
  EXPECT_TRUE(plan.limited());
  EXPECT_EQ(plan.intended_ns(0, 0), 500);
  EXPECT_EQ(plan.intended_ns(0, 1), 500 + 1'000'000);
  EXPECT_EQ(plan.intended_ns(0, 1000), 500 + ns_per_s);
}

TEST(Pace, LetsConnectionsTakeTurns) {
  workload work;
  work.rate = 1000;
  work.connections = 4;
  const pace plan{work, 0};
  EXPECT_EQ(plan.intended_ns(0, 0), 0);
  EXPECT_EQ(plan.intended_ns(1, 0), 1'000'000);
  EXPECT_EQ(plan.intended_ns(3, 0), 3'000'000);
  EXPECT_EQ(plan.intended_ns(0, 1), 4'000'000);
}

TEST(Pace, DoesNotDriftOverADay) {
  workload work;
  work.rate = 3'000'000;
  const pace plan{work, 0};
  const std::uint64_t day = 86'400;
  EXPECT_NEAR(static_cast<double>(plan.intended_ns(0, day * work.rate)),
              static_cast<double>(day) * 1e9, 1e3);
}

TEST(Pace, IsUnlimitedWithoutARate) {
  EXPECT_FALSE((pace{workload{}, 0}.limited()));
}

}  // namespace
}  // namespace atbus::bench
