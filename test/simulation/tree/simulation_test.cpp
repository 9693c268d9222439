// Runs scenarios of trees from a range of seeds: simulated_runs.h says how to choose others.
// ATBUS_SIMULATION_NODES: how large a tree can be.
#include "simulated_runs.h"
#include "simulation/tree/scenario.h"

namespace atbus::detail {
namespace {

TEST(TreeSimulation, KeepsEveryPromiseUnderEveryFault) {
  test::run_seeds(test::has_sanitizer ? 2 : 16, make_tree_scenario);
}

// Rare meetings of faults, that once broke a promise.
TEST(TreeSimulation, KeepsItsPromisesWhereItOnceDidNot) {
  if (test::has_sanitizer)
    GTEST_SKIP() << "takes more than a minute then; shorter runs are checked too";
  constexpr std::uint64_t link_that_a_circuit_waits_for_is_replaced = 3602;
  EXPECT_EQ(run(make_tree_scenario(link_that_a_circuit_waits_for_is_replaced), nullptr).fault, "");
}

TEST(TreeSimulation, DoesTheSameForTheSameSeed) {
  test::compare_runs(2, make_tree_scenario);
}

TEST(TreeSimulation, RunsOneSeedAgain) {
  test::run_one_seed(make_tree_scenario);
}

}  // namespace
}  // namespace atbus::detail
