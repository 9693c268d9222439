// Runs of scenarios that follow from seeds: many in a row, and one that fails made short.
//
//   ATBUS_SIMULATION_SEEDS=100000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_node_test
//   ATBUS_SIMULATION_SEED=4711 bin/simulation_node_test
//   ATBUS_SIMULATION_COUNT=1 bin/simulation_node_test     # all seeds that fail, instead of the first one
#pragma once

#include <ctime>
#include <iostream>
#include <ostream>
#include <ratio>
#include <sstream>

#include "from_environment.h"
#include "sanitizer.h"
#include "test.h"

namespace atbus::test {

struct run_result {
  std::string fault;  // empty: all is well
  std::uint64_t messages = 0;
  std::chrono::nanoseconds node_time{0};  // simulated, of all nodes together
  // From the end of the faults until all is connected and settled.
  std::chrono::nanoseconds recovery{0};
};

// Leaves out events for as long as the run still fails, and for so much CPU time. Found by argument:
// run(scenario).
template <class Scenario>
[[nodiscard]] Scenario shrink(Scenario failing, std::chrono::seconds most) {
  const std::clock_t latest = std::clock() + most.count() * CLOCKS_PER_SEC;
  // Halves first, then quarters, down to one at a time; again until nothing can go.
  for (std::size_t piece = std::max<std::size_t>(failing.events.size() / 2, 1); piece != 0;) {
    bool went = false;
    for (std::size_t at = 0; at < failing.events.size();) {
      if (std::clock() > latest)
        return failing;
      Scenario shorter = failing;
      const std::size_t end = std::min(at + piece, shorter.events.size());
      shorter.events.erase(shorter.events.begin() + static_cast<std::ptrdiff_t>(at),
                           shorter.events.begin() + static_cast<std::ptrdiff_t>(end));
      if (run(shorter, nullptr).fault.empty()) {
        at = end;
      } else {
        failing = std::move(shorter);
        went = true;
      }
    }
    if (piece > 1 || !went)
      piece = piece > 1 ? piece / 2 : 0;
  }
  return failing;
}

// `make` a scenario of each seed and run it; the first that fails is made as short as it gets.
template <class Make>
void run_seeds(std::uint64_t usual_seeds, Make make) {
  const std::uint64_t first = from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = from_environment("ATBUS_SIMULATION_SEEDS", usual_seeds);
  const bool counts = from_environment("ATBUS_SIMULATION_COUNT", 0) != 0;
  const std::clock_t began = std::clock();
  std::uint64_t failed = 0;
  std::uint64_t messages = 0;
  double node_minutes = 0;
  std::chrono::duration<double> recovery_longest{0};
  std::chrono::duration<double> recovery_sum{0};
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto all = make(seed);
    const run_result one = run(all, nullptr);
    messages += one.messages;
    node_minutes += std::chrono::duration<double, std::ratio<60>>{one.node_time}.count();
    recovery_sum += one.recovery;
    recovery_longest = std::max<std::chrono::duration<double>>(recovery_longest, one.recovery);
    if (one.fault.empty())
      continue;
    ++failed;
    if (counts) {
      std::cout << "seed " << seed << ": " << one.fault << '\n';
      continue;
    }
    const auto shorter = shrink(all, std::chrono::minutes{1});
    std::ostringstream trace;
    const run_result again = run(shorter, &trace);
    FAIL() << "seed " << seed << ": " << one.fault << "\nshortened: " << again.fault << '\n'
           << to_text(shorter) << trace.str();
  }
  if (counts)
    std::cout << failed << " of " << seeds << " seeds fail\n";
  const double cpu = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  std::cout << seeds << " seeds, " << node_minutes << " node-minutes with "
            << static_cast<double>(messages) / node_minutes << " messages each, "
            << node_minutes / cpu << " node-minutes a second of CPU; recovered after "
            << recovery_sum.count() / static_cast<double>(seeds) << " s, at most "
            << recovery_longest.count() << " s\n";
}

// `run` of each seed tells what is wrong. Returns how many there were; ends at the first that fails.
template <class Run>
std::uint64_t run_worlds(std::uint64_t usual_seeds, const Run& run) {
  const std::uint64_t first = from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = from_environment("ATBUS_SIMULATION_SEEDS", usual_seeds);
  const bool counts = from_environment("ATBUS_SIMULATION_COUNT", 0) != 0;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    const std::string fault = run(seed);
    failed += fault.empty() ? 0 : 1;
    if (counts && !fault.empty())
      std::cout << "seed " << seed << ": " << fault << '\n';
    if (counts || fault.empty())
      continue;
    ADD_FAILURE() << "seed " << seed << ": " << fault;
    break;
  }
  if (counts)
    std::cout << failed << " of " << seeds << " seeds fail\n";
  return seeds;
}

// The same seed is the same run.
template <class Make>
void compare_runs(std::uint64_t seeds, Make make) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::ostringstream first;
    std::ostringstream second;
    run(make(seed), &first);
    run(make(seed), &second);
    ASSERT_GT(first.str().size(), 1000U);
    ASSERT_EQ(first.str(), second.str()) << "seed " << seed;
  }
}

// The one that the environment names, with a trace.
template <class Make>
void run_one_seed(Make make) {
  const std::uint64_t seed = from_environment("ATBUS_SIMULATION_SEED", 0);
  if (seed == 0)
    GTEST_SKIP() << "set ATBUS_SIMULATION_SEED to see what it does";
  const auto all = make(seed);
  std::cout << to_text(all);
  EXPECT_EQ(run(all, &std::cout).fault, "");
}

}  // namespace atbus::test
