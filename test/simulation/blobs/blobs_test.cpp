// Blobs among nodes whose links and processes fail, by seeds: every blob has one outcome, its bytes come in
// order, and what its outcome says is what happened.
//
//   ATBUS_SIMULATION_SEEDS=10000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_blobs_test
#include <iostream>
#include <map>

#include "simulated_runs.h"
#include "simulation/blobs/blob_world.h"

namespace atbus::detail {
namespace {

TEST(BlobSimulation, KeepsEveryPromiseUnderEveryFault) {
  std::map<errc, std::uint64_t> outcomes;
  test::run_worlds(test::has_sanitizer ? 20 : 200, [&](std::uint64_t seed) {
    return blob_world{seed, outcomes}.run();
  });
  for (const auto& [how, times] : outcomes)
    std::cout << name(how) << ' ' << times << '\n';
  for (const errc how : {errc::ok, errc::request_failed, errc::unknown_request, errc::cancelled,
                         errc::peer_closed, errc::no_space})
    EXPECT_NE(outcomes[how], 0U) << name(how) << " was never seen: the runs show little";
}

}  // namespace
}  // namespace atbus::detail
