// Requests, gathers and cancels among nodes whose links and processes fail, by seeds: every request has one
// outcome, and what its outcome says is what happened.
//
//   ATBUS_SIMULATION_SEEDS=10000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_requests_test
#include <iostream>
#include <map>

#include "simulated_runs.h"
#include "simulation/requests/request_world.h"

namespace atbus::detail {
namespace {

TEST(RequestSimulation, KeepsEveryPromiseUnderEveryFault) {
  std::map<errc, std::uint64_t> outcomes;
  test::run_worlds(test::has_sanitizer ? 50 : 1000, [&](std::uint64_t seed) {
    return request_world{seed, outcomes}.run();
  });
  for (const auto& [how, times] : outcomes)
    std::cout << name(how) << ' ' << times << '\n';
  for (const errc how : {errc::ok, errc::request_failed, errc::timed_out, errc::cancelled,
                         errc::outcome_unknown, errc::closed})
    EXPECT_NE(outcomes[how], 0U) << name(how) << " was never seen: the runs show little";
}

}  // namespace
}  // namespace atbus::detail
