// Topics of nodes whose links and processes fail, by seeds: each subscriber gets each message once and in order,
// or is told that it missed it.
//
//   ATBUS_SIMULATION_SEEDS=10000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_topics_test
#include <iostream>

#include "simulated_runs.h"
#include "simulation/topics/topic_world.h"

namespace atbus::detail {
namespace {

TEST(TopicSimulation, LosesAndRepeatsNothingWithoutAWord) {
  const std::uint64_t first = test::from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds =
      test::from_environment("ATBUS_SIMULATION_SEEDS", test::has_sanitizer ? 50 : 1000);
  const bool counts = test::from_environment("ATBUS_SIMULATION_COUNT", 0) != 0;
  std::uint64_t failed = 0;
  topic_counts all;
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    const std::string fault = topic_world{seed, all}.run();
    failed += fault.empty() ? 0 : 1;
    if (counts && !fault.empty())
      std::cout << "seed " << seed << ": " << fault << '\n';
    if (!counts) {
      ASSERT_EQ(fault, "") << "seed " << seed;
    }
  }
  if (counts)
    std::cout << failed << " of " << seeds << " seeds fail\n";
  std::cout << all.messages << " messages, " << all.missed << " missed, " << all.redelivered
            << " redelivered, " << all.blocked << " refused, " << all.standing
            << " owed to who has subscribed before\n";
  if (seeds < 20)
    return;
  for (const std::uint64_t one :
       {all.messages, all.missed, all.redelivered, all.blocked, all.standing})
    EXPECT_NE(one, 0U) << "the runs show little";
}

}  // namespace
}  // namespace atbus::detail
