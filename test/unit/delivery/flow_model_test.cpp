// Many short random runs of a flow; see flow_world.h. ATBUS_TEST_SEED=n replays one.
#include <cstdlib>

#include "flow_world.h"
#include "test.h"

namespace atbus {
namespace {

TEST(FlowModel, KeepsEveryPromiseInRandomRuns) {
  constexpr int runs = 20'000;
  test::flow_sights sights;
  const char* const replay = std::getenv("ATBUS_TEST_SEED");
  std::uint64_t seed = replay != nullptr ? std::strtoull(replay, nullptr, 10)
                                         : std::uint64_t{std::random_device{}()} << 20;
  for (int i = 0; i < (replay != nullptr ? 1 : runs); ++i, ++seed) {
    test::flow_world world(seed, sights);
    world.run();
    ASSERT_EQ(world.fault(), "") << "replay with ATBUS_TEST_SEED=" << seed;
  }
  if (replay != nullptr)
    return;
  EXPECT_GT(sights.delivered, 50'000U);
  EXPECT_GT(sights.delivered_by_answer, 100U);
  EXPECT_GT(sights.delivered_again, 100U);
  EXPECT_GT(sights.by_old_incarnation, 100U);
  EXPECT_GT(sights.after_loss, 100U);
  EXPECT_GT(sights.not_delivered, 1'000U);
  EXPECT_GT(sights.unknown_given_up, 100U);
  EXPECT_GT(sights.unknown_by_death, 100U);
  EXPECT_GT(sights.unknown_by_forgetting, 100U);
  EXPECT_GT(sights.replaced, 1'000U);
  EXPECT_GT(sights.passed_over, 1'000U);
}

}  // namespace
}  // namespace atbus
