// Runs scenarios from a range of seeds: simulated_runs.h says how to choose others.
#include "counting_allocator.h"
#include "simulated_runs.h"
#include "simulation/node/scenario.h"

namespace atbus::detail {
namespace {

TEST(Simulation, KeepsEveryPromiseUnderEveryFault) {
  test::run_seeds(test::has_sanitizer ? 100 : 4000, make_scenario);
}

TEST(Simulation, KeepsEveryPromiseThoughNodesMissAllocations) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  test::run_seeds(1000, make_starved_scenario);
}

// Rare meetings of faults, that once broke a promise.
TEST(Simulation, KeepsItsPromisesWhereItOnceDidNot) {
  constexpr std::uint64_t two_lives_at_once_the_older_one_heard_last = 91671;
  constexpr std::uint64_t in_use_while_it_registers_again = 16867;
  constexpr std::uint64_t handled_in_a_lane_that_its_writer_has_left = 416420;
  constexpr std::uint64_t back_without_its_name = 9500553;
  for (const std::uint64_t seed :
       {back_without_its_name, handled_in_a_lane_that_its_writer_has_left,
        two_lives_at_once_the_older_one_heard_last, in_use_while_it_registers_again}) {
    scenario all = make_scenario(seed);
    std::erase_if(all.events, [](const scenario_event& one) {
      return one.what == happening::overtake ||
             one.what == happening::stumble;  // younger than that
    });
    EXPECT_EQ(run(all, nullptr).fault, "") << "seed " << seed;
  }
}

TEST(Simulation, DoesTheSameForTheSameSeed) {
  test::compare_runs(20, make_scenario);
}

TEST(Simulation, RunsOneSeedAgain) {
  test::run_one_seed(make_scenario);
}

TEST(Simulation, RunsOneSeedWithMissedAllocationsAgain) {
  test::run_one_seed(make_starved_scenario);
}

}  // namespace
}  // namespace atbus::detail
