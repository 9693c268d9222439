// How long a wait spins before it sleeps.
#include "system/spin_budget.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds for_ever = std::chrono::nanoseconds::max();

// Whether a spin that began so long ago would go on.
bool spins_after(spin_budget& budget, std::chrono::nanoseconds spent) {
  return budget.spin(now() - spent, for_ever, [] { return true; });
}

TEST(SpinBudget, EndsWhenItIsDone) {
  spin_budget budget{1h};
  int looks = 0;
  EXPECT_TRUE(budget.spin(now(), for_ever, [&looks] { return ++looks == 100; }));
  EXPECT_EQ(looks, 100);
}

TEST(SpinBudget, EndsWhenItIsUsedUp) {
  spin_budget budget{1ms};
  const auto start = now();
  EXPECT_FALSE(budget.spin(start, for_ever, [] { return false; }));
  EXPECT_GE(now() - start, 1ms);
}

TEST(SpinBudget, EndsAtTheDeadline) {
  spin_budget budget{1h};
  const auto start = now();
  EXPECT_FALSE(budget.spin(start, start + 1ms, [] { return false; }));
  EXPECT_GE(now() - start, 1ms);
}

TEST(SpinBudget, OfNothingNeverLooks) {
  spin_budget budget{0ns};
  EXPECT_FALSE(budget.spin(now(), for_ever, [] {
    ADD_FAILURE() << "spins";
    return true;
  }));
}

TEST(SpinBudget, HalvesWithEachWaitThatTookLonger) {
  spin_budget budget{64h};
  for (auto expected = 64h; expected >= 1h; expected /= 2) {
    EXPECT_TRUE(spins_after(budget, expected - 30min)) << expected.count() << " hours";
    EXPECT_FALSE(spins_after(budget, expected)) << expected.count() << " hours";
    budget.learn(65h);
  }
}

TEST(SpinBudget, IsGivenUpWhereItNeverPays) {
  spin_budget budget{64us};
  for (int i = 0; i < 7; ++i)  // down to less than a microsecond
    budget.learn(1s);
  EXPECT_FALSE(spins_after(budget, 0ns));
}

TEST(SpinBudget, IsWholeAgainAfterAWaitThatItWouldHaveCovered) {
  spin_budget budget{64h};
  for (int i = 0; i < 100; ++i)
    budget.learn(65h);
  ASSERT_FALSE(spins_after(budget, 0ns));
  budget.learn(64h);
  EXPECT_TRUE(spins_after(budget, 63h));
}

}  // namespace
}  // namespace atbus::detail
