// What atbus/testing.hpp promises to whoever tests with it.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "atbus/testing.hpp"
#include "test.h"

namespace atbus::testing {
namespace {

constexpr const char* there = "ipv4://10.0.0.2:7000";

// Node 1 is connected to node 2, which keeps what it is told in `got`.
class Simulation : public ::testing::Test {
 protected:
  void start_both(const process_options& options = {}) {
    sim.start(
        2,
        [this](node& of) {
          of.on_message([this](const message& m) { got.emplace_back(m.text()); });
          EXPECT_TRUE(of.listen(there));
        },
        options);
    sim.start(
        1,
        [this](node& of) {
          of.on_undelivered([this](const undelivered&) { ++reports; });
          EXPECT_TRUE(of.connect(2, there));
        },
        options);
  }
  [[nodiscard]] bool is_connected() {
    const auto all = sim.node(1).endpoints();
    return !all.empty() && all[0].connected();
  }

  simulation sim{1};
  std::vector<std::string> got;
  int reports = 0;
};

TEST_F(Simulation, DeliversWhatIsSentUntilItIsIdle) {
  start_both();
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_TRUE(sim.node(1).send(2, 0, "two"));
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got, (std::vector<std::string>{"one", "two"}));
  EXPECT_LT(sim.now(), 1s);
}

TEST_F(Simulation, StandsStillUntilItIsRun) {
  start_both();
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_EQ(sim.now(), 0s);
  EXPECT_TRUE(sim.step());
  sim.run_for(3s);
  EXPECT_GE(sim.now(), 3s);
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(Simulation, IsNotIdleWhileSomebodyIsMissing) {
  start_both();
  ASSERT_TRUE(sim.run_until_idle());
  sim.kill(2);
  EXPECT_FALSE(sim.is_running(2));
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_FALSE(sim.run_until_idle(10s));
  sim.restart(2);
  EXPECT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(Simulation, KeepsWhatAProgramReturnsUntilItsProcessEnds) {
  std::weak_ptr<int> seen;
  const auto program = [&](node&) {
    auto kept = std::make_shared<int>(1);
    seen = kept;
    return kept;
  };
  sim.start(3, program);
  EXPECT_FALSE(seen.expired());
  const std::weak_ptr<int> first = seen;
  sim.restart(3);
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(seen.expired());
  sim.kill(3);
  EXPECT_TRUE(seen.expired());
}

TEST_F(Simulation, EndsAProcessThatStopsAndIsDone) {
  start_both();
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  sim.node(1).stop();
  ASSERT_TRUE(sim.run_until([&] { return !sim.is_running(1); }));
  EXPECT_EQ(got.size(), 1U);
  EXPECT_THROW((void)sim.node(1), std::logic_error);
}

TEST_F(Simulation, EndsAndRestartsProcessesFromTheirHandlers) {
  start_both();
  int begun = 0;
  sim.start(3, [&](node& of) {
    ++begun;
    of.on_message([&, instance = begun](const message&) {
      if (instance == 1)
        sim.restart(3);
    });
    EXPECT_TRUE(of.listen("unix:///three"));
  });
  EXPECT_TRUE(sim.node(1).connect(3, "unix:///three"));
  EXPECT_TRUE(sim.node(1).send(3, 0, "one"));
  ASSERT_TRUE(sim.run_until([&] { return begun == 2; }));
  EXPECT_TRUE(sim.run_until_idle());
}

// Also those that the test itself calls, and where a node waits meanwhile.
TEST_F(Simulation, KeepsAProcessUntilItsHandlerHasReturned) {
  const std::function<void()> ends[] = {[&] { sim.kill(3); }, [&] { sim.restart(3); }};
  const std::function<void(node&)> turns[] = {[](node& of) { of.poll(); },
                                              [](node& of) { (void)of.run(); }};
  for (const auto& end : ends) {
    for (const auto& turn : turns) {
      std::weak_ptr<int> seen;
      int calls = 0;
      sim.start(3, [&](node& of) {
        auto kept = std::make_shared<int>(0);
        seen = kept;
        of.on_message([&, of_this = std::weak_ptr{kept}](const message&) {
          ++calls;
          end();
          EXPECT_FALSE(of_this.expired());
        });
        return kept;
      });
      EXPECT_TRUE(sim.node(3).send(3, 0, "end"));
      turn(sim.node(3));
      EXPECT_EQ(calls, 1);
      sim.run_for(1s);
      if (sim.is_running(3))
        sim.kill(3);
      EXPECT_TRUE(seen.expired());
    }
  }
}

TEST_F(Simulation, EndsAProcessThatWaits) {
  start_both();
  sim.after(1s, [&] { sim.kill(1); });
  EXPECT_EQ(sim.node(1).run(), errc::closed);
  EXPECT_FALSE(sim.is_running(1));
  EXPECT_GE(sim.now(), 1s);
  sim.restart(1);
  EXPECT_TRUE(sim.run_until_idle());
}

TEST_F(Simulation, RunsWhileAProgramWaits) {
  start_both();
  sim.node(1).on_message([&](const message&) { sim.node(1).stop(); });
  sim.node(2).on_message(
      [&](const message& m) { EXPECT_TRUE(sim.node(2).send(m.source(), 0, m.text())); });
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_TRUE(sim.node(1).run());
  EXPECT_LT(sim.now(), 1s);
  EXPECT_TRUE(sim.node(1).shutdown(1s));
}

TEST_F(Simulation, LosesAConnectionThatIsCutAndMakesAnother) {
  start_both();
  ASSERT_TRUE(sim.run_until_idle());
  sim.cut(1, 2);
  ASSERT_TRUE(sim.run_until([&] { return !is_connected(); }));
  ASSERT_TRUE(sim.run_until([&] { return is_connected(); }));
}

TEST_F(Simulation, LetsNobodyThroughWhoAreSeparated) {
  start_both();
  sim.separate(1, 2);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_FALSE(sim.run_until_idle());
  sim.join(2, 1);
  EXPECT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(Simulation, SeparatesThoseWhoAreConnected) {
  start_both();
  ASSERT_TRUE(sim.run_until_idle());
  sim.separate(1, 2);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_FALSE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 0U);
}

TEST_F(Simulation, ConnectsAcrossHostsThroughTcpOnly) {
  sim.start(2,
            [](node& of) {
              EXPECT_TRUE(of.listen("unix:///two"));
              EXPECT_TRUE(of.listen("ipv6://[::1]:7000"));
            },
            {.host = 2});
  sim.start(1, [](node& of) { EXPECT_TRUE(of.connect(2, "unix:///two")); });
  sim.run_for(10s);
  EXPECT_FALSE(is_connected());
  EXPECT_TRUE(sim.node(1).connect(2, "ipv6://[::1]:7000"));
  EXPECT_TRUE(sim.run_until([&] { return is_connected(); }));
}

TEST_F(Simulation, RefusesConnectionsAndDelaysMessages) {
  sim.conditions().refuses = true;
  start_both();
  sim.run_for(10s);
  EXPECT_FALSE(is_connected());
  sim.conditions().refuses = false;
  sim.conditions().delay_min = sim.conditions().delay_max = 1s;
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  const auto before = sim.now();
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_GT(sim.now() - before, 6s);
}

TEST_F(Simulation, StopsAProcessForAWhile) {
  start_both();
  ASSERT_TRUE(sim.run_until_idle());
  sim.stop_for(2, 3s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  sim.run_for(2s);
  EXPECT_EQ(got.size(), 0U);
  EXPECT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(Simulation, StepsTheClockOfOneProcess) {
  start_both({.node = node_options{}.allow_unauthenticated().message_deadline(1min)});
  ASSERT_TRUE(sim.run_until_idle());
  sim.kill(2);
  ASSERT_TRUE(sim.run_until([&] { return !is_connected(); }));
  EXPECT_TRUE(sim.node(1).send(2, 0, "too late"));
  sim.run_for(10s);
  EXPECT_EQ(reports, 0);
  sim.step_clock(1, 1min);
  sim.run_for(1s);
  EXPECT_EQ(reports, 1);
}

TEST_F(Simulation, CallsWhatIsPlanned) {
  start_both();
  sim.after(2s, [&] { EXPECT_TRUE(sim.node(1).send(2, 0, "one")); });
  EXPECT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 1U);
  EXPECT_GE(sim.now(), 2s);
}

TEST_F(Simulation, PassesOnWhatAHandlerThrows) {
  start_both();
  sim.node(2).on_message([&](const message& m) {
    got.emplace_back(m.text());
    if (got.size() == 1)
      throw std::runtime_error{"handler"};
  });
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  EXPECT_TRUE(sim.node(1).send(2, 0, "two"));
  EXPECT_THROW((void)sim.run_until_idle(), std::runtime_error);
  EXPECT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.size(), 2U);
}

// A program changes the conditions while planned faults go on, and they have what it said when those are over.
TEST(SimulationOf, FaultsLeaveTheConditionsAlone) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    simulation sim{seed};
    std::vector<std::chrono::nanoseconds> took;
    sim.start(2, [&](node& of) {
      of.on_message([&](const message& m) {
        took.push_back(sim.now() - std::chrono::nanoseconds{std::stoll(std::string{m.text()})});
      });
      EXPECT_TRUE(of.listen(there));
    });
    sim.start(1, [](node& of) { EXPECT_TRUE(of.connect(2, there)); });
    sim.run_for(1s);
    sim.disturb(
        30s, {.cuts = 0, .delays = 10, .refusals = 3, .stops = 0, .restarts = 0, .clock_steps = 0});
    sim.run_for(1s);
    sim.conditions().delay_min = 10ms;
    EXPECT_EQ(sim.conditions().delay_max, 500us);  // less than the shortest
    sim.conditions().refuses = true;
    for (int i = 0; i != 60; ++i) {
      EXPECT_TRUE(sim.node(1).send(2, 0, std::to_string(sim.now().count())));
      sim.run_for(500ms);
    }
    EXPECT_EQ(sim.conditions().delay_min, 10ms);
    EXPECT_EQ(sim.conditions().delay_max, 500us);
    EXPECT_TRUE(sim.conditions().refuses);
    ASSERT_TRUE(sim.run_until_idle()) << "seed " << seed;
    ASSERT_EQ(took.size(), 60U);
    const auto [least, most] = std::minmax_element(took.begin(), took.end());
    EXPECT_GE(*least, 10ms);
    EXPECT_LT(*most, 1100ms);
    EXPECT_GT(*most, 15ms) << "seed " << seed;
    EXPECT_TRUE(sim.node(1).send(2, 0, std::to_string(sim.now().count())));
    ASSERT_TRUE(sim.run_until_idle());
    EXPECT_LT(took.back(), 12ms);
  }
}

// Each goes on until its own end, also beside others.
TEST(SimulationOf, FaultsThatOverlapEndEachByItself) {
  const disturbances refusals{
      .cuts = 0, .delays = 0, .refusals = 1'000, .stops = 0, .restarts = 0, .clock_steps = 0};
  simulation sim{1};
  sim.disturb(100s, refusals);
  sim.run_for(1s);
  sim.start(2, [](node& of) { EXPECT_TRUE(of.listen(there)); });
  sim.start(1, [](node& of) { EXPECT_TRUE(of.connect(2, there)); });
  const auto is_connected = [&] {
    const auto all = sim.node(1).endpoints();
    return !all.empty() && all[0].connected();
  };
  EXPECT_FALSE(sim.run_until(is_connected, 98s));
  EXPECT_TRUE(sim.run_until(is_connected, 1min));
}

// All that two nodes are told under faults.
std::string story(std::uint64_t seed) {
  simulation sim{seed};
  std::string told;
  const auto note = [&](node& of) {
    of.on_message([&](const message& m) { told += m.redelivered() ? "again " : "message "; });
    of.on_endpoint([&](const endpoint&, endpoint_event event) {
      told += std::to_string(sim.now() / 1us) + ' ' + std::string{name(event)} + '\n';
    });
  };
  sim.start(2, [&](node& of) {
    note(of);
    EXPECT_TRUE(of.listen(there));
  });
  sim.start(1, [&](node& of) {
    note(of);
    EXPECT_TRUE(of.connect(2, there));
  });
  sim.disturb(30s, {.cuts = 10, .restarts = 3});
  for (int i = 0; i < 60; ++i) {
    sim.after(i * 500ms, [&] {
      if (sim.is_running(1))
        (void)sim.node(1).send(2, 0, "hello");
    });
  }
  EXPECT_TRUE(sim.run_until_idle(5min)) << "seed " << seed;
  EXPECT_TRUE(sim.is_running(1));
  EXPECT_TRUE(sim.is_running(2));
  return told;
}

TEST(SimulationOf, OneSeedIsAlwaysTheSameAndAnotherIsNot) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string first = story(seed);
    EXPECT_GT(first.size(), 150U);
    EXPECT_EQ(first, story(seed));
    EXPECT_NE(first, story(seed + 100));
  }
}

TEST(SimulationOf, SeedsEndsAtTheFirstOneThatFails) {
  std::vector<std::uint64_t> seen;
  const auto holds = [&](simulation& sim) {
    seen.push_back(sim.seed());
    return sim.seed() != 3;
  };
  EXPECT_EQ(first_failing_seed(5, holds), 3U);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(first_failing_seed(2, holds), std::nullopt);
  setenv("ATBUS_SIMULATION_SEED", "3", 1);
  seen.clear();
  EXPECT_EQ(first_failing_seed(5, holds), 3U);
  EXPECT_EQ(simulation{}.seed(), 3U);
  unsetenv("ATBUS_SIMULATION_SEED");
  EXPECT_EQ(seen, std::vector<std::uint64_t>{3});
}

TEST_F(Simulation, FindsParentsAgainWhenTheyHaveRestarted) {
  process_options options;
  options.node.children("16/60");
  sim.start(
      16, [](node& of) { EXPECT_TRUE(of.listen("ipv4://10.0.0.16:7000")); }, options);
  options.node.children("").parent("ipv4://10.0.0.16:7000");
  for (const std::uint64_t id : {17U, 18U}) {
    sim.start(
        id,
        [this](node& of) {
          of.on_message([this](const message& m) { got.emplace_back(m.text()); });
        },
        options);
  }
  const auto all_have_it = [this] {
    return sim.node(17).parent() == 16 && sim.node(18).parent() == 16;
  };
  ASSERT_TRUE(sim.run_until(all_have_it));
  sim.restart(16);
  ASSERT_TRUE(sim.run_until([&] { return !all_have_it(); }));
  ASSERT_TRUE(sim.run_until(all_have_it));
  EXPECT_TRUE(sim.node(17).send(18, 0, "from one child to the other"));
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got, std::vector<std::string>{"from one child to the other"});
}

}  // namespace
}  // namespace atbus::testing
