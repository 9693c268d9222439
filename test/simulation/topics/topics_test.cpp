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
  topic_counts all;
  const std::uint64_t seeds =
      test::run_worlds(test::has_sanitizer ? 50 : 1000, [&](std::uint64_t seed) {
        return topic_world{seed, all}.run();
      });
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
