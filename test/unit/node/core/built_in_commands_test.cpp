// The commands that a node answers itself, over a simulated network.
#include "command_message.h"
#include "node/report/report_format.h"
#include "node_commands_fixture.h"

namespace atbus::detail {
namespace {

class BuiltInCommands : public NodeCommands {
 protected:
  words answer_to(const words& question, errc wanted = errc::ok) {
    told answer;
    EXPECT_TRUE(ask(question, answer));
    net.run_for(1s);
    EXPECT_EQ(answer.times, 1);
    EXPECT_EQ(answer.how.code(), wanted) << name(answer.how.code());
    return answer.values;
  }
  static node_report decoded(const words& values) {
    const auto report = decode_report(as_bytes(values.at(0)));
    EXPECT_TRUE(report) << report.error().text();
    return report ? *report : node_report{};
  }
};

TEST_F(BuiltInCommands, AreAnsweredWithoutAHandler) {
  connect();
  EXPECT_EQ(answer_to({"atbus.ping"}), (words{"2", std::to_string(two.core().self().incarnation)}));
  EXPECT_TRUE(handled.empty());
}

TEST_F(BuiltInCommands, AreTheUsersWhereTheyAreTurnedOff) {
  party three{net, 3, plain().built_in_commands(false)};
  one.connect(3);
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(3); }, 5s));
  told answer;
  ASSERT_TRUE(one.node.user().command(3, {"atbus.ping"}, 1s, answer.write()));
  one.node.wake();
  net.run_for(1s);
  expect(answer, errc::unknown_command);
}

TEST_F(BuiltInCommands, OfOtherNamesAreTheUsers) {
  connect();
  on_command = [](command& c) { c.reply("mine"); };
  EXPECT_EQ(answer_to({"atbus.other"}), words{"mine"});
}

TEST_F(BuiltInCommands, TellTheReport) {
  connect();
  ASSERT_TRUE(one.send(2, "message"));
  const node_report report = decoded(answer_to({"atbus.report"}));
  EXPECT_EQ(report.id, bus_id{2});
  ASSERT_EQ(report.peers.size(), 1U);
  EXPECT_EQ(report.peers[0].id, bus_id{1});
  EXPECT_EQ(report.peers[0].received, 2U);  // the command too
}

TEST_F(BuiltInCommands, TellTheReportInParts) {
  std::vector<std::unique_ptr<party>> others;
  for (std::uint64_t id = 10; id != 50; ++id) {
    others.push_back(std::make_unique<party>(net, id, plain().message_limit(4096)));
    others.back()->connect(2);
  }
  ASSERT_TRUE(net.run_until([&] { return two.core().endpoints().size() == 40; }, 5s));
  net.run_for(1s);
  std::vector<bus_id> seen;
  std::size_t parts = 0;
  while (seen.size() < 40 && ++parts < 40) {
    told answer;
    ASSERT_TRUE(others[0]->node.user().command(2, {"atbus.report", std::to_string(seen.size())}, 1s,
                                               answer.write()));
    others[0]->node.wake();
    net.run_for(1s);
    ASSERT_EQ(answer.how.code(), errc::ok);
    const node_report part = decoded(answer.values);
    EXPECT_EQ(part.peers_in_all, 40U);
    for (const peer_report& one_of : part.peers)
      seen.push_back(one_of.id);
  }
  EXPECT_GT(parts, 5U);
  ASSERT_EQ(seen.size(), 40U);
  for (std::uint64_t id = 10; id != 50; ++id)
    EXPECT_EQ(seen[id - 10], bus_id{id});
  // Behind the last one there is none.
  connect();
  EXPECT_TRUE(decoded(answer_to({"atbus.report", "4000000000"})).peers.empty());
}

TEST_F(BuiltInCommands, SayWhereMessagesGo) {
  connect();
  EXPECT_EQ(answer_to({"atbus.route", "2"}), words{"here"});
  const words link = answer_to({"atbus.route", "1"});
  ASSERT_EQ(link.size(), 4U);
  EXPECT_EQ(link[0], "link");
  EXPECT_EQ(link[1], "1");
  EXPECT_EQ(link[2], "tcp");
  answer_to({"atbus.route", "77"}, errc::command_failed);
}

TEST_F(BuiltInCommands, RefuseArgumentsThatMakeNoSense) {
  connect();
  for (const words& question :
       {words{"atbus.report", "x"}, words{"atbus.report", "-1"}, words{"atbus.report", "1x"},
        words{"atbus.report", "99999999999999999999999"}, words{"atbus.route"},
        words{"atbus.route", "nobody"}, words{"atbus.ask"}, words{"atbus.ask", "1"},
        words{"atbus.ask", "x", "atbus.ping"}, words{"atbus.ask", "1", "stop"},
        words{"atbus.ask", "2", "atbus.ping"},  // node 2 itself
        words{"atbus.ask", "1", "atbus.ask", "2", "atbus.ping"}}) {
    const words why = answer_to(question, errc::command_failed);
    EXPECT_EQ(why.size(), 1U);
  }
}

TEST_F(BuiltInCommands, ArePassedOn) {
  party three{net, 3};
  connect();
  two.connect(3);
  ASSERT_TRUE(net.run_until([&] { return two.is_connected(3); }, 5s));
  EXPECT_EQ(answer_to({"atbus.ask", "3", "atbus.ping"}),
            (words{"3", std::to_string(three.core().self().incarnation)}));
  EXPECT_EQ(decoded(answer_to({"atbus.ask", "3", "atbus.report"})).id, bus_id{3});
  answer_to({"atbus.ask", "4", "atbus.ping"}, errc::command_failed);
}

// Whoever asks takes shorter messages than the nodes do.
TEST_F(BuiltInCommands, ArePassedOnInParts) {
  party three{net, 3};
  party four{net, 4, plain().message_limit(4096)};
  std::vector<std::unique_ptr<party>> others;
  for (std::uint64_t id = 10; id != 50; ++id) {
    others.push_back(std::make_unique<party>(net, id));
    others.back()->connect(3);
  }
  two.connect(3);
  four.connect(2);
  ASSERT_TRUE(net.run_until(
      [&] { return three.core().endpoints().size() == 41 && four.is_connected(2); }, 5s));
  net.run_for(1s);
  std::size_t seen = 0;
  for (std::size_t parts = 0; seen < 41 && parts != 41; ++parts) {
    told answer;
    ASSERT_TRUE(four.node.user().command(
        2, {"atbus.ask", "3", "atbus.report", std::to_string(seen)}, 10s, answer.write()));
    four.node.wake();
    net.run_for(1s);
    ASSERT_EQ(answer.times, 1) << "no answer came";
    ASSERT_EQ(answer.how.code(), errc::ok);
    const node_report part = decoded(answer.values);
    EXPECT_EQ(part.id, bus_id{3});
    EXPECT_EQ(part.peers_in_all, 41U);
    ASSERT_FALSE(part.peers.empty());
    seen += part.peers.size();
  }
  EXPECT_EQ(seen, 41U);
}

// What is passed on has no words, and is too long for whoever asked.
TEST_F(BuiltInCommands, ArePassedOnThoughTheAnswerIsNone) {
  connect();
  hand_played asks{net, 5, 2, true, true, [](introduction& self) { self.message_limit = 1; }};
  hand_played answers{net,  6,    2,
                      true, true, [](introduction& self) { self.nonce[1] = std::byte{9}; }};
  ASSERT_TRUE(net.run_until([&] { return asks.is_registered() && answers.is_registered(); }, 5s));
  asks.say(flow_body{.next = 1});
  asks.say_bytes(command_message(flag_command, 0, 1, {"atbus.ask", "6", "atbus.ping"}));
  net.run_for(1s);
  const std::vector<std::uint64_t> asked = commands_in(answers.got);
  ASSERT_EQ(asked.size(), 1U);
  answers.say(flow_body{.next = 1});
  answers.say_bytes(command_message(flag_reply, 0, asked.front(), {}));
  net.run_for(1s);
  EXPECT_FALSE(answers.has_ended());
  EXPECT_EQ(answer_to({"atbus.ping"}).size(), 2U);
}

// Who asked is gone when the answer comes, and so is the node that was asked.
TEST_F(BuiltInCommands, ArePassedOnForNobody) {
  auto three = std::make_unique<party>(net, 3);
  connect();
  two.connect(3);
  ASSERT_TRUE(net.run_until([&] { return two.is_connected(3); }, 5s));
  told answer;
  ASSERT_TRUE(ask({"atbus.ask", "3", "atbus.ping"}, answer, 10s));
  net.run_until([&] { return two.core().stats().commands == 1; }, 1s);
  two.core().close();
  net.run_for(20s);
  EXPECT_EQ(answer.times, 1);
}

}  // namespace
}  // namespace atbus::detail
