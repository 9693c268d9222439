// Nodes on simulated inboxes with a name, which outlive their processes.
#include <fstream>

#include "atbus/testing.hpp"
#include "sanitizer.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::testing {
namespace {

using texts = std::vector<std::string>;

// Node 1 sends to node 2, which receives at shm://two.
class NodeAtANamedSegment : public ::testing::Test {
 protected:
  void start_both(const node_options& sender = node_options{}.allow_unauthenticated()) {
    sim.start(2, [this](node& of) {
      of.on_message([this](const message& m) {
        got.push_back(std::string{m.text()} + (m.redelivered() ? " again" : ""));
      });
      EXPECT_TRUE(of.listen("shm://two"));
    });
    sim.start(
        1,
        [this](node& of) {
          of.on_undelivered([this](const undelivered& what) { reports.push_back(what.outcome()); });
          of.on_endpoint(
              [this](const endpoint&, endpoint_event event) { events.push_back(event); });
          EXPECT_TRUE(of.connect(2, "shm://two"));
        },
        {.node = sender});
    ASSERT_TRUE(sim.run_until([this] { return is_connected(); }));
  }
  [[nodiscard]] bool is_connected() {
    const auto all = sim.node(1).endpoints();
    return !all.empty() && all[0].connected();
  }

  simulation sim{1};
  texts got;
  std::vector<errc> reports;
  std::vector<endpoint_event> events;
};

TEST_F(NodeAtANamedSegment, FindsWhatCameWhileItDidNotRun) {
  start_both();
  sim.stop_for(2, 1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  sim.kill(2);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "two"));
  EXPECT_EQ(events, (std::vector{endpoint_event::connected, endpoint_event::away}));
  sim.restart(2);
  ASSERT_TRUE(sim.run_until([this] { return got.size() == 2; }));
  EXPECT_TRUE(sim.node(1).send(2, 0, "three"));
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got, (texts{"one", "two", "three"}));
  EXPECT_TRUE(reports.empty());
}

TEST_F(NodeAtANamedSegment, KeepsWhatIsForTheNodeThatHadTheNameBefore) {
  start_both();
  sim.stop_for(2, 1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  sim.kill(2);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "two"));
  texts got_by_another;
  sim.start(3, [&](node& of) {
    of.on_message([&](const message& m) { got_by_another.emplace_back(m.text()); });
    EXPECT_TRUE(of.listen("shm://two"));
  });
  sim.run_for(1s);
  sim.kill(3);
  sim.restart(2);
  ASSERT_TRUE(sim.run_until([this] { return got.size() == 2; }));
  EXPECT_EQ(got, (texts{"one", "two"}));
  EXPECT_TRUE(got_by_another.empty());
  EXPECT_TRUE(reports.empty());
}

TEST_F(NodeAtANamedSegment, IsHandedNothingTwiceThatItsSenderHasBrokenOff) {
  start_both(node_options{}
                 .allow_unauthenticated()
                 .overflow(overflow_policy::disconnect)
                 .message_limit(1000));
  sim.stop_for(2, 1s);
  texts sent;
  const auto next = [&] { return std::string(900, 'x') + std::to_string(sent.size()); };
  while (sim.node(1).send(2, 0, next()))
    sent.push_back(next());
  ASSERT_GT(sent.size(), 1U);
  sim.run_for(100ms);
  sim.restart(2);
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got, sent);
  EXPECT_EQ(reports, std::vector<errc>(sent.size(), errc::outcome_unknown));
  EXPECT_TRUE(sim.node(1).send(2, 0, "after"));
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got.back(), "after");
}

TEST_F(NodeAtANamedSegment, IsHandedNothingOlderThanWhatItHasHandled) {
  start_both();
  EXPECT_TRUE(sim.node(1).listen("unix:///one"));
  sim.stop_for(2, 1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "old"));
  EXPECT_TRUE(sim.node(1).disconnect(2));
  sim.run_for(100ms);
  sim.kill(2);
  sim.start(2, [this](node& of) {
    of.on_message([this](const message& m) { got.emplace_back(m.text()); });
    EXPECT_TRUE(of.connect(1, "unix:///one"));
  });
  ASSERT_TRUE(sim.run_until([this] { return is_connected(); }));
  EXPECT_TRUE(sim.node(1).send(2, 0, "new"));
  ASSERT_TRUE(sim.run_until([this] { return !got.empty(); }));
  EXPECT_TRUE(sim.node(2).listen("shm://two"));
  ASSERT_TRUE(sim.run_until_idle());
  sim.run_for(1s);
  EXPECT_EQ(got, texts{"new"});
  EXPECT_EQ(reports, std::vector{errc::outcome_unknown});
}

// The rules of a successor hold for what waits for it, too, and its sender is told as it is over a link.
TEST_F(NodeAtANamedSegment, ReportsWhatTheRulesOfASuccessorRefuse) {
  start_both();
  sim.stop_for(2, 1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "one"));
  sim.kill(2);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(1).send(2, 1, "no"));
  EXPECT_TRUE(sim.node(1).send(2, 0, "two"));
  EXPECT_TRUE(sim.node(1).send(2, 1, "no"));
  const test::scratch_directory scratch;
  const std::string path = scratch.path() + "/access.toml";
  std::ofstream{path} << "register = \"any\"\n[[send]]\nfrom = [1]\nto = [2]\nmessages = [0]\n";
  sim.start(2,
            [this](node& of) {
              of.on_message([this](const message& m) { got.emplace_back(m.text()); });
              EXPECT_TRUE(of.listen("shm://two"));
            },
            {.node = node_options{}.allow_unauthenticated().access(path)});
  ASSERT_TRUE(sim.run_until([this] { return got.size() == 2; }));
  ASSERT_TRUE(sim.run_until_idle());
  EXPECT_EQ(got, (texts{"one", "two"}));
  EXPECT_EQ(reports, (std::vector{errc::not_delivered, errc::not_delivered}));
}

// Each end dials the other, so that an incarnation that comes back has two links, one of which waits while
// the other one registers again.
TEST(NodesAtTwoNamedSegments, MeetAgainWheneverOneOfThemDies) {
  for (auto dies_after = 0us; dies_after < 100ms; dies_after += test::one_moment_in * 37us) {
    simulation sim{static_cast<std::uint64_t>(dies_after.count()) + 1};
    texts got;
    sim.start(1, [&](node& of) {
      of.on_message([&](const message& m) { got.emplace_back(m.text()); });
      EXPECT_TRUE(of.listen("shm://one"));
      EXPECT_TRUE(of.connect(2, "shm://two"));
    });
    sim.start(2, [](node& of) {
      EXPECT_TRUE(of.listen("shm://two"));
      EXPECT_TRUE(of.connect(1, "shm://one"));
    });
    ASSERT_TRUE(sim.run_until_idle());
    EXPECT_TRUE(sim.node(1).send(2, 0, "waits"));
    sim.kill(2);
    sim.restart(2);
    EXPECT_TRUE(sim.node(1).send(2, 0, "waits too"));
    sim.run_for(dies_after);
    sim.kill(2);
    sim.restart(2);
    EXPECT_TRUE(sim.node(2).send(1, 0, "here again"));
    ASSERT_TRUE(sim.run_until([&] { return !got.empty(); })) << dies_after.count() << " us";
  }
}

using CommandsInASegment = NodeAtANamedSegment;

TEST_F(CommandsInASegment, AreNotCarriedOutByALaterIncarnationOnceTheirTimeIsOver) {
  start_both();
  sim.kill(2);
  sim.run_for(1s);
  std::vector<errc> results;
  const auto note = [&](status how, const command_reply&) { results.push_back(how.code()); };
  ASSERT_TRUE(sim.node(1).command(2, {"too late"}, 2s, note));
  ASSERT_TRUE(sim.node(1).command(2, {"in time"}, 20s, note));
  sim.run_for(4s);
  EXPECT_EQ(results, std::vector{errc::timed_out});
  texts carried_out;
  sim.restart(2);
  sim.node(2).on_command([&](command& c) {
    carried_out.emplace_back(c.name());
    c.reply("done");
  });
  ASSERT_TRUE(sim.run_until([&] { return results.size() == 2; }));
  sim.run_for(5s);
  EXPECT_EQ(carried_out, texts{"in time"});
  EXPECT_EQ(results[1], errc::ok);
}

}  // namespace
}  // namespace atbus::testing
