// What becomes of commands when links, processes and nodes go.
#include "node_commands_fixture.h"

namespace atbus::detail {
namespace {

TEST_F(NodeCommands, ThatTimedOutBeforeALinkTookThemAreNeverCarriedOut) {
  net.separate(1, 2);
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask({"once"}, answer, 500ms));
  ASSERT_TRUE(one.send(2, "a message"));
  net.run_for(1s);
  expect(answer, errc::timed_out);
  EXPECT_TRUE(one.reports.empty());
  net.join(1, 2);
  ASSERT_TRUE(net.run_until([&] { return two.got.size() == 1; }, 20s));
  EXPECT_TRUE(handled.empty());
}

// The link that had taken it is lost before it came to the other end, which is there again later.
TEST_F(NodeCommands, WhoseTimeWasOverMeanwhileAreNotCarriedOutLater) {
  connect();
  two.node.channels().fall_silent();
  told answer;
  told later;
  told patient;
  ASSERT_TRUE(ask({"while the link was there"}, answer, 500ms));
  ASSERT_TRUE(ask({"when it was lost"}, later, 50s));
  ASSERT_TRUE(ask({"at any time"}, patient, 10min));
  two.node.user().close();
  net.separate(1, 2);
  net.run_for(40s);
  expect(answer, errc::timed_out);
  EXPECT_FALSE(one.is_connected(2));
  EXPECT_EQ(later.times, 0);
  net.run_for(20s);
  expect(later, errc::timed_out);
  EXPECT_EQ(patient.times, 0);
  net.join(1, 2);
  party again{net, 2};
  again.node.user().on_command([&](command& c) {
    handled.emplace_back(c.name());
    c.reply("done");
  });
  net.run_for(20s);
  expect(patient, errc::ok, {"done"});
  EXPECT_EQ(handled, (words{"at any time"}));
  expect(answer, errc::timed_out);
  expect(later, errc::timed_out);
  EXPECT_TRUE(one.reports.empty());
}

// A reply may be ahead of the acknowledgement, and the link may be lost in between.
TEST_F(NodeCommands, ThatAreAnsweredAreNoLossesOfTheirLink) {
  connect();
  on_command = [](command& c) { c.reply("done"); };
  std::vector<told> answers(6);
  for (told& answer : answers) {
    ASSERT_TRUE(ask({"x"}, answer, 10min));
    net.run_for(30us);
  }
  ASSERT_TRUE(net.run_until([&] { return answers.back().times == 1; }, 50ms));
  net.separate(1, 2);
  net.run_for(2min);
  ASSERT_FALSE(one.is_connected(2));
  net.join(1, 2);
  net.run_for(20s);
  for (const told& answer : answers)
    expect(answer, errc::ok, {"done"});
  EXPECT_EQ(handled.size(), 6U);
  EXPECT_EQ(one.core().stats().deadline_drops, 0U);
  EXPECT_EQ(one.core().stats().outcome_unknown, 0U);
  EXPECT_TRUE(one.core().settled());
}

TEST_F(NodeCommands, WaitForALinkAndAreAnsweredThroughIt) {
  on_command = [](command& c) { c.reply("here"); };
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask({"where"}, answer, 5s));
  net.run_for(5s);
  expect(answer, errc::ok, {"here"});
}

TEST_F(NodeCommands, AreAnsweredThroughTheNextLinkWhenOneIsLost) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask({"slow"}, answer, 30s));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  net.cut(0, seen_by::both);
  net.run_for(5ms);
  ASSERT_FALSE(two.is_connected(1));
  EXPECT_TRUE(kept.at(0).reply("after all"));
  net.run_for(10s);
  expect(answer, errc::ok, {"after all"});
}

TEST_F(NodeCommands, ReachALaterIncarnationMarked) {
  connect();
  on_command = [](command& c) { EXPECT_FALSE(c.redelivered()); };
  net.conditions.delay_min = net.conditions.delay_max = 10ms;
  told answer;
  ASSERT_TRUE(ask({"reload", "maps"}, answer, 30s));
  net.run_for(1ms);
  two.node.user().close();
  party again{net, 2};
  bool marked = false;
  again.node.user().on_command([&](command& c) {
    marked = c.redelivered();
    EXPECT_EQ(c.arguments().size(), 1U);
    c.reply("done");
  });
  net.run_for(20s);
  expect(answer, errc::ok, {"done"});
  EXPECT_TRUE(marked);
}

TEST_F(NodeCommands, ThatAreNotDeliveredSayWhyToWhoAskedAlone) {
  told nowhere;
  EXPECT_EQ(one.node.user().command(9, {"x"}, 1s, nowhere.write()), errc::no_route);
  one.connect(2);
  told disconnected;
  ASSERT_TRUE(ask({"x"}, disconnected, 30s));
  ASSERT_TRUE(one.core().disconnect(2));
  one.node.wake();
  net.run_for(100ms);
  expect(disconnected, errc::closed);
  EXPECT_EQ(nowhere.times, 0);
  EXPECT_TRUE(one.reports.empty());
}

TEST_F(NodeCommands, OfWhoHasGoneLeaveNothingBehind) {
  std::optional<party> three{std::in_place, net, 3};
  three->connect(2);
  ASSERT_TRUE(net.run_until([&] { return three->is_connected(2); }, 5s));
  keep();
  told answer;
  ASSERT_TRUE(three->node.user().command(2, "x", 1min, answer.write()));
  three->node.wake();
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  three.reset();
  expect(answer, errc::closed);
  net.run_for(1s);
  EXPECT_TRUE(kept.at(0).reply("it may be back"));
  two.node.wake();
  net.run_for(1min);
  EXPECT_TRUE(two.core().endpoints().empty());
  EXPECT_TRUE(two.core().settled());
}

}  // namespace
}  // namespace atbus::detail
