// Simulated processes that end or are replaced while code of theirs runs: it runs the simulation from within a node.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "atbus/testing.hpp"
#include "test.h"

namespace atbus::testing {
namespace {

constexpr const char* where_2_listens = "ipv4://10.0.0.2:7000";

// What a program returns, with what it has seen.
struct kept_by_program {
  std::weak_ptr<int> first;  // of the first incarnation
  int begun = 0;

  std::shared_ptr<int> begin() {
    auto made = std::make_shared<int>(++begun);
    if (begun == 1)
      first = made;
    return made;
  }
};

class SimulationEnds : public ::testing::Test, public ::testing::WithParamInterface<bool> {
 protected:
  // Node 1 is connected to node 2.
  void start_both() {
    sim.start(2, [](node& of) { EXPECT_TRUE(of.listen(where_2_listens)); });
    sim.start(1, [this](node& of) {
      EXPECT_TRUE(of.connect(2, where_2_listens));
      return kept.begin();
    });
  }
  [[nodiscard]] static bool comes_back() { return GetParam(); }
  void end(bus_id id) {
    if (comes_back())
      sim.restart(id);
    else
      sim.kill(id);
  }
  void expect_end(bus_id id) {
    sim.run_for(1s);
    EXPECT_TRUE(kept.first.expired());
    EXPECT_EQ(kept.begun, comes_back() ? 2 : 1);
    EXPECT_EQ(sim.is_running(id), comes_back());
  }

  simulation sim{1};
  kept_by_program kept;
};

INSTANTIATE_TEST_SUITE_P(Process, SimulationEnds, ::testing::Bool(), [](const auto& comes_back) {
  return std::string{comes_back.param ? "Restarted" : "Killed"};
});

TEST_P(SimulationEnds, InItsOwnWait) {
  start_both();
  sim.run_for(500ms);
  bool was_there = false;
  sim.after(10ms, [&] { end(1); });
  sim.after(11ms, [&] { was_there = !kept.first.expired(); });
  const std::chrono::nanoseconds began = sim.now();
  node& self = sim.node(1);
  status how;
  while (how != errc::closed && sim.now() - began < 1s)
    how = self.wait(1s);
  EXPECT_EQ(how, errc::closed);
  EXPECT_LT(sim.now() - began, 11ms);
  sim.run_for(10ms);
  EXPECT_FALSE(was_there);
  expect_end(1);
}

// Nothing polls a node that has no timers.
TEST_P(SimulationEnds, WhereNothingElseWouldEndItsWait) {
  const std::function<status(node&)> waits[] = {[](node& of) { return of.wait(-1ns); },
                                                [](node& of) { return of.run(); }};
  for (const bool others_talk : {false, true}) {
    if (others_talk)
      start_both();
    for (const auto& wait : waits) {
      sim.start(3, [](node&) {});
      sim.run_for(1s);
      sim.after(1h, [&] { end(3); });
      const std::chrono::nanoseconds at = sim.now() + 1h;
      node& self = sim.node(3);
      status how;
      while (how != errc::closed && sim.now() <= at)
        how = wait(self);
      EXPECT_EQ(how, errc::closed);
      EXPECT_EQ(sim.now(), at);
      sim.run_for(1s);
      ASSERT_EQ(sim.is_running(3), comes_back());
      if (comes_back())
        sim.kill(3);
    }
  }
}

TEST_P(SimulationEnds, WhileItShutsDown) {
  start_both();
  sim.run_for(1s);
  sim.separate(1, 2);
  EXPECT_TRUE(sim.node(1).send(2, 0, "keeps it from its end"));
  sim.after(10ms, [&] { end(1); });
  EXPECT_EQ(sim.node(1).shutdown(1min), errc::closed);
  EXPECT_LT(sim.now(), 2s);
  expect_end(1);
}

// Neither the handler's node nor what its program has kept ends before it returns.
TEST_P(SimulationEnds, WhileItsHandlerWaitsForAnotherNode) {
  const std::function<void()> runs[] = {[&] { sim.run_for(1s); }, [&] { sim.node(1).poll(); }};
  for (const auto& run : runs) {
    kept = {};
    start_both();
    bool was_there = false;
    sim.node(1).on_message([&](const message&) {
      end(1);
      const std::chrono::nanoseconds until = sim.now() + 10ms;
      while (sim.now() < until)
        (void)sim.node(2).wait(until - sim.now());
      was_there = !kept.first.expired();
    });
    EXPECT_TRUE(sim.node(1).send(1, 0, "end"));
    run();
    EXPECT_TRUE(was_there);
    expect_end(1);
    sim.kill(2);
    if (comes_back())
      sim.kill(1);
  }
}

// It begins anew once no code of its program runs, also where other code does.
TEST_F(SimulationEnds, ComesBackWhileAHandlerOfAnotherNodeWaits) {
  start_both();
  bool is_back = false;
  sim.node(2).on_message([&](const message&) {
    sim.restart(1);
    const std::chrono::nanoseconds until = sim.now() + 10ms;
    while (!sim.is_running(1) && sim.now() < until)
      (void)sim.node(1000).wait(until - sim.now());
    is_back = sim.is_running(1);
  });
  sim.start(1000, [](node&) {});
  EXPECT_TRUE(sim.node(1).send(2, 0, "restart"));
  sim.run_for(1s);
  EXPECT_TRUE(is_back);
  EXPECT_EQ(kept.begun, 2);
}

TEST_F(SimulationEnds, ComesBackOnceHoweverOftenItIsRestarted) {
  start_both();
  sim.node(1).on_message([&](const message&) {
    sim.restart(1);
    sim.restart(1);
    EXPECT_EQ(kept.begun, 1);
  });
  EXPECT_TRUE(sim.node(1).send(1, 0, "restart"));
  sim.node(1).poll();
  EXPECT_FALSE(sim.is_running(1));
  EXPECT_FALSE(kept.first.expired());
  sim.restart(1);
  EXPECT_TRUE(kept.first.expired());
  sim.run_for(1s);
  EXPECT_EQ(kept.begun, 2);
  EXPECT_TRUE(sim.is_running(1));
}

TEST_P(SimulationEnds, InAHandlerWhileAnotherNodeShutsDown) {
  bool was_there = false;
  sim.start(2, [&](node& of) {
    auto mine = kept.begin();
    of.on_message([&, instance = *mine](const message&) {
      if (instance != 1)
        return;
      end(2);
      was_there = !kept.first.expired();
    });
    EXPECT_TRUE(of.listen(where_2_listens));
    return mine;
  });
  sim.start(1, [](node& of) { EXPECT_TRUE(of.connect(2, where_2_listens)); });
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(1).send(2, 1, "x"));
  (void)sim.node(1).shutdown(5s);
  EXPECT_TRUE(was_there);
  expect_end(2);
}

TEST_P(SimulationEnds, WhileItsProgramBegins) {
  sim.start(2, [](node&) {});
  const bus_id waits_for[] = {1, 2};
  for (const bus_id one : waits_for) {
    kept = {};
    bool was_there = false;
    sim.start(1, [&](node& of) {
      auto mine = kept.begin();
      if (kept.begun != 1)
        return mine;
      sim.after(10ms, [&] { end(1); });
      const std::chrono::nanoseconds until = sim.now() + 20ms;
      node& waiting = sim.node(one);
      while (sim.now() < until && waiting.is_open())
        (void)waiting.wait(until - sim.now());
      was_there = !of.is_open() && of.send(2, 0, "") == errc::closed;
      return mine;
    });
    EXPECT_TRUE(was_there);
    expect_end(1);
    if (comes_back())
      sim.kill(1);
  }
}

TEST(SimulationEndsOften, WhileANodeWaits) {
  simulation sim{1};
  int begun = 0;
  for (const std::uint64_t id : {1U, 2U}) {
    sim.start(id, [&, id](node& of) {
      ++begun;
      EXPECT_TRUE(id == 2 ? of.listen(where_2_listens) : of.connect(2, where_2_listens));
    });
  }
  sim.disturb(
      30s, {.cuts = 0, .delays = 0, .refusals = 0, .stops = 0, .restarts = 20, .clock_steps = 0});
  while (sim.now() < 31s) {
    if (!sim.is_running(1)) {
      sim.run_for(100ms);
      continue;
    }
    (void)sim.node(1).wait(100ms);
    if (sim.is_running(1))
      sim.node(1).poll();
  }
  EXPECT_TRUE(sim.is_running(1));
  EXPECT_TRUE(sim.is_running(2));
  EXPECT_GT(begun, 5);
}

}  // namespace
}  // namespace atbus::testing
