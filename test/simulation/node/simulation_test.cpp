// Runs scenarios from a range of seeds. For a long run, or one seed again with a trace:
//
//   ATBUS_SIMULATION_SEEDS=100000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_node_test
//   ATBUS_SIMULATION_SEED=4711 bin/simulation_node_test
//
// A seed that fails is made as short as it gets and shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>

#include "from_environment.h"
#include "sanitizer.h"
#include "simulation/node/scenario.h"

namespace atbus::detail {
namespace {

TEST(Simulation, KeepsEveryPromiseUnderEveryFault) {
#if defined(ATBUS_TEST_SANITIZER)
  constexpr std::uint64_t usual = 100;
#else
  constexpr std::uint64_t usual = 4000;
#endif
  const std::uint64_t first = test::from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = test::from_environment("ATBUS_SIMULATION_SEEDS", usual);
  const std::clock_t began = std::clock();
  std::uint64_t messages = 0;
  double node_minutes = 0;
  std::chrono::duration<double> recovery_longest{0};
  std::chrono::duration<double> recovery_sum{0};
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const scenario all = make_scenario(seed);
    const run_result one = run(all);
    messages += one.messages;
    node_minutes += std::chrono::duration<double, std::ratio<60>>{one.node_time}.count();
    recovery_sum += one.recovery;
    recovery_longest = std::max<std::chrono::duration<double>>(recovery_longest, one.recovery);
    if (one.fault.empty())
      continue;
    const scenario shorter = shrink(all);
    std::ostringstream trace;
    const run_result again = run(shorter, &trace);
    FAIL() << "seed " << seed << ": " << one.fault << "\nshortened: " << again.fault << '\n'
           << to_text(shorter) << trace.str();
  }
  const double cpu = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  std::cout << seeds << " seeds, " << node_minutes << " node-minutes with "
            << static_cast<double>(messages) / node_minutes << " messages each, "
            << node_minutes / cpu << " node-minutes a second of CPU; recovered after "
            << recovery_sum.count() / static_cast<double>(seeds) << " s, at most "
            << recovery_longest.count() << " s\n";
}

TEST(Simulation, DoesTheSameForTheSameSeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::ostringstream first;
    std::ostringstream second;
    run(make_scenario(seed), &first);
    run(make_scenario(seed), &second);
    ASSERT_GT(first.str().size(), 1000U);
    ASSERT_EQ(first.str(), second.str()) << "seed " << seed;
  }
}

TEST(Simulation, RunsOneSeedAgain) {
  const std::uint64_t seed = test::from_environment("ATBUS_SIMULATION_SEED", 0);
  if (seed == 0)
    GTEST_SKIP() << "set ATBUS_SIMULATION_SEED to see what it does";
  const scenario all = make_scenario(seed);
  std::cout << to_text(all);
  EXPECT_EQ(run(all, &std::cout).fault, "");
}

}  // namespace
}  // namespace atbus::detail
