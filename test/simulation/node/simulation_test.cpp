// Runs scenarios from a range of seeds: simulated_runs.h says how to choose others.
#include <gtest/gtest.h>

#include "simulated_runs.h"
#include "simulation/node/scenario.h"

namespace atbus::detail {
namespace {

TEST(Simulation, KeepsEveryPromiseUnderEveryFault) {
  test::run_seeds(test::is_sanitized ? 100 : 4000, make_scenario);
}

TEST(Simulation, DoesTheSameForTheSameSeed) {
  test::compare_runs(20, make_scenario);
}

TEST(Simulation, RunsOneSeedAgain) {
  test::run_one_seed(make_scenario);
}

}  // namespace
}  // namespace atbus::detail
