#include "atbus/bench/machine_state.h"

#include <nlohmann/json.hpp>

#include "test.h"

namespace atbus::bench {
namespace {

using rounds = std::vector<std::size_t>;

machine_watch watch_of(const std::vector<std::vector<double>>& cache_line_us) {
  machine_watch made;
  for (const auto& one : cache_line_us)
    made.add(one);
  return made;
}

TEST(MachineStates, AreApartWhereACacheLineTakesAnotherTime) {
  const machine_watch watch = watch_of(
      {{0.06, 0.07}, {0.33, 0.30, 0.31}, {0.14, 0.15}, {0.34, 0.33}, {0.32, 0.33}, {0.07, 0.06}});
  const auto states = watch.states();
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].rounds, (rounds{1, 3, 4})) << "most rounds first";
  EXPECT_EQ(states[1].rounds, (rounds{0, 5}));
  EXPECT_EQ(states[2].rounds, (rounds{2}));
  EXPECT_EQ(states[0].cache_line_us.min, 0.30);
  EXPECT_EQ(states[0].cache_line_us.max, 0.34);
  EXPECT_EQ(watch.note(), "");
}

TEST(MachineStates, LeaveOutRoundsInWhichTheCoresMoved) {
  const machine_watch watch = watch_of({{0.06, 0.30}, {0.06, 0.06}, {0.33, 0.33, 0.06}});
  const auto states = watch.states();
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].rounds, rounds{1});
  EXPECT_TRUE(states[0].is_steady);
  EXPECT_NE(watch.note().find("in 2 of 3 runs the cores moved"), std::string::npos);
}

TEST(MachineStates, AreNoneWhereTheCoresAlwaysMove) {
  const machine_watch watch = watch_of({{0.06, 0.30}, {0.30, 0.06}});
  const auto states = watch.states();
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].rounds, (rounds{0, 1}));
  EXPECT_FALSE(states[0].is_steady);
  EXPECT_NE(watch.note().find("compare no figures"), std::string::npos);
}

TEST(MachineStates, AreOneWhereNothingIsMeasured) {
  const machine_watch watch = watch_of({{}, {}});
  const auto states = watch.states();
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].rounds, (rounds{0, 1}));
  EXPECT_EQ(state_text(states[0], 2), "both sides on one core, 2 of 2 runs");
  EXPECT_EQ(watch.note(), "");
}

TEST(MachineStates, AreEachInTheResultAndTheMostFrequentOneFirst) {
  const machine_watch watch = watch_of({{0.06}, {0.33}, {0.33}});
  const nlohmann::json made = json_of_states(watch, [](const machine_state& state) {
    return nlohmann::json{{"runs", state.rounds.size()}};
  });
  EXPECT_EQ(made["runs"], 2);
  EXPECT_EQ(made["all_runs"], 3);
  EXPECT_EQ(made["cache_line_us"]["median"], 0.33);
  ASSERT_EQ(made["states"].size(), 2U);
  EXPECT_EQ(made["states"][1]["runs"], 1);
  EXPECT_EQ(made["states"][1]["cache_line_us"]["max"], 0.06);
}

TEST(MachineStates, TakeTheirRunsOutOfASeries) {
  run_series all;
  all.runs.resize(3);
  all.runs[2].messages = 3;
  const run_series some = select(all, {0, 2, 7});
  ASSERT_EQ(some.runs.size(), 2U);
  EXPECT_EQ(some.runs[1].messages, 3U);
}

}  // namespace
}  // namespace atbus::bench
