// Nodes whose access rules come from a file, over a simulated network.
#include <fstream>
#include <map>
#include <optional>

#include "atbus/topic.hpp"
#include "scratch_directory.h"
#include "unit/node/hand_played_circuit.h"
#include "unit/node/route/tree_of_six.h"

namespace atbus::detail {
namespace {

constexpr const char* anybody_registers = "register = \"any\"\n";
constexpr const char* nothing_is_sent = "send = []\n";

std::string may_send(const std::string& from, const std::string& to, const std::string& what) {
  return "[[send]]\nfrom = " + from + "\nto = " + to + "\n" + what + "\n";
}

class NodeAccess : public ::testing::Test {
 protected:
  using texts = std::vector<std::string>;

  void write(const std::string& rules) const { std::ofstream{path} << rules; }
  // What has changed is read at the second look.
  void rewrite(const std::string& rules) {
    write(rules);
    net.run_for(6s);
  }
  [[nodiscard]] node_options with_rules() const { return plain().access(path); }
  void connect(party& from, std::uint64_t to) {
    from.connect(to);
    ASSERT_TRUE(net.run_until([&] { return from.is_connected(to); }, 5s));
    net.run_for(5ms);
  }

  test::scratch_directory scratch;
  std::string path = scratch.path() + "/access.toml";
  simulated_network net{1};
};

TEST_F(NodeAccess, LetsANodeSendWhatItsOwnRulesAllow) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [5, 6]\nrequests = [7]"));
  party one{net, 1, with_rules()};
  party two{net, 2};
  connect(one, 2);
  const auto send = [&](std::uint32_t type) { return one.node.user().send(2, type, "text"); };
  EXPECT_TRUE(send(5));
  EXPECT_TRUE(send(6));
  EXPECT_EQ(send(7), errc::denied);
  const auto ask = [&](std::uint32_t type) {
    return one.node.user().request(2, type, "text", 1s, [](const response&) {}).why();
  };
  EXPECT_TRUE(ask(7));
  EXPECT_EQ(ask(5), errc::denied);
  EXPECT_EQ(one.node.user().command(2, {"status"}, 1s, [](status, const command_reply&) {}),
            errc::denied);
  EXPECT_EQ(one.node.user().broadcast(*id_range::parse("2/64"), 5, as_bytes("text")), errc::denied);
  EXPECT_EQ(one.core().stats().access_denied, 4U);
  EXPECT_EQ(one.core().stats().refused, 3U);
  one.node.wake();
  net.run_for(1s);
  EXPECT_EQ(two.got, (texts{"text", "text"}));
}

// What a subscriber may not have is a gap for it where it is sent, and nothing where it arrives.
TEST_F(NodeAccess, HoldsForCopiesOfTopicsWhereTheyAreSentAndWhereTheyArrive) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [5]") +
        may_send("[1]", "[3]", "messages = [5, 6]"));
  const std::string others = scratch.path() + "/others.toml";
  std::ofstream{others} << anybody_registers + may_send("[1]", "[3]", "messages = [6]");
  party one{net, 1, with_rules()};
  party two{net, 2};
  party three{net, 3, plain().access(others)};
  connect(one, 2);
  connect(one, 3);
  std::map<int, texts> got;
  for (party* const by : {&two, &three}) {
    texts& all = got[by == &two ? 2 : 3];
    EXPECT_TRUE(by->node.user().subscribe(
        "news", [&all](const topic_message& m) { all.emplace_back(m.text()); },
        {.on_missed = [&all](bus_id, std::uint64_t messages) {
          all.push_back("missed " + std::to_string(messages));
        }}));
    by->node.wake();
  }
  net.run_for(1s);
  topic news{one.node.user(), "news"};
  const std::uint64_t denied = one.core().stats().access_denied;
  EXPECT_EQ(news.publish(5, "a").links(), 2U);
  EXPECT_EQ(news.publish(6, "b").links(), 1U);
  EXPECT_EQ(news.publish(5, "c").links(), 2U);
  EXPECT_EQ(news.publish(7, "d").links(), 0U);
  EXPECT_EQ(news.publish(6, "e").links(), 1U);
  EXPECT_EQ(one.core().stats().access_denied - denied, 4U);
  one.node.wake();
  net.run_for(1s);
  EXPECT_EQ(got[2], (texts{"a", "missed 1", "c"}));
  EXPECT_EQ(got[3], (texts{"b", "missed 1", "e"}));
  EXPECT_EQ(three.core().stats().access_denied, 2U);
}

// For want of room in the link, which is that of a process that is stopped; or of a link.
TEST_F(NodeAccess, DropsCopiesThatWaitIfTheRulesForbidThemByNow) {
  write(anybody_registers + may_send("[1]", "[2, 3]", "messages = [5]"));
  party one{net, 1,
            with_rules().message_limit(1024).send_buffer_size(4096).first_idle_timeout(60s)};
  party two{net, 2};
  party three{net, 3};
  std::map<std::uint64_t, std::uint64_t> had;
  std::map<std::uint64_t, std::uint64_t> missing;
  for (party* const by : {&two, &three}) {
    connect(*by, 1);
    const std::uint64_t id = by == &two ? 2 : 3;
    ASSERT_TRUE(
        by->node.user().subscribe("news", [&had, id](const topic_message&) { ++had[id]; },
                                  {.on_missed = [&missing, id](bus_id, std::uint64_t messages) {
                                    missing[id] += messages;
                                  }}));
    by->node.wake();
  }
  net.run_for(1s);
  topic news{one.node.user(), "news"};
  two.node.stop_until(net.now() + 12s);
  net.cut(1, 3, testing::seen_by::both);
  net.separate(1, 3);
  net.run_for(1s);
  const std::uint64_t before = one.core().stats().topic_copies;
  for (int i = 0; i != 100; ++i)
    EXPECT_EQ(news.publish(5, std::string(500, 'x')).links(), 2U);
  one.node.wake();
  net.run_for(1s);
  const std::uint64_t in_link = one.core().stats().topic_copies - before;
  EXPECT_LT(in_link, 100U);
  rewrite(anybody_registers + std::string{nothing_is_sent});
  net.join(1, 3);
  net.run_for(30s);
  EXPECT_EQ(had[2], in_link);
  EXPECT_EQ(had[3], 0U);
  EXPECT_EQ(had[2] + missing[2], 100U);
  EXPECT_EQ(missing[3], 100U);
}

TEST_F(NodeAccess, KeepsWhatItLetsThroughInOrderWhetherItIsCheckedOrNot) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [5]\nrequests = \"any\""));
  party one{net, 1, with_rules()};
  party two{net, 2};
  connect(one, 2);
  texts sent;
  for (int i = 0; i < 300; ++i) {
    sent.push_back(std::to_string(i));
    ASSERT_TRUE(one.node.user().send(2, 5, sent.back()));
    ASSERT_EQ(one.node.user().send(2, 4, "no"), errc::denied);
  }
  one.node.wake();
  net.run_for(1s);
  EXPECT_EQ(two.got, sent);
}

TEST_F(NodeAccess, TurnsMessagesAwayAndTellsTheirSender) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [0]"));
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> turned_away;
  one.core().handlers().on_undelivered = [&](const undelivered& what) {
    EXPECT_EQ(what.outcome(), errc::not_delivered);
    EXPECT_EQ(what.reason(), errc::denied);
    turned_away.emplace_back(what.number(), what.type());
  };
  EXPECT_TRUE(one.node.user().send(2, 0, "first"));
  EXPECT_TRUE(one.node.user().send(2, 8, "no"));
  EXPECT_TRUE(one.node.user().send(2, 0, "second"));
  EXPECT_TRUE(one.node.user().send(2, 9, "no"));
  one.node.wake();
  net.run_for(1s);
  EXPECT_EQ(two.got, (texts{"first", "second"}));
  ASSERT_EQ(turned_away.size(), 2U);
  EXPECT_EQ(turned_away[0].second, 8U);
  EXPECT_EQ(turned_away[1].second, 9U);
  EXPECT_EQ(turned_away[0].first + 2, turned_away[1].first);
  EXPECT_EQ(two.core().stats().access_denied, 2U);
  EXPECT_EQ(one.core().stats().not_delivered, 2U);
  EXPECT_EQ(two.logged("node 1 sends messages of type 8: no access rule allows it"), 1);
  EXPECT_TRUE(one.is_connected(2));
}

TEST_F(NodeAccess, LogsEachCauseOnceAMinute) {
  write(std::string{anybody_registers} + nothing_is_sent);
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  for (int i = 0; i < 40; ++i)
    ASSERT_TRUE(one.send(2, "no"));
  net.run_for(1s);
  EXPECT_EQ(two.core().stats().access_denied, 40U);
  EXPECT_EQ(two.logged("no access rule allows it"), 1);
  EXPECT_TRUE(two.got.empty());
}

TEST_F(NodeAccess, AnswersRequestsAndCommandsThatItRefuses) {
  write(anybody_registers + may_send("[1]", "[2]", "requests = [7]\ncommands = [\"status\"]"));
  party one{net, 1};
  party two{net, 2, with_rules()};
  int handled = 0;
  two.node.user().on_request([&](request& r) {
    ++handled;
    r.reply("yes");
  });
  two.node.user().on_command([&](command& c) {
    ++handled;
    c.reply({});
  });
  connect(one, 2);
  const auto ask = [&](std::uint32_t type) {
    status how;
    one.node.user().request(2, type, "", 1s, [&](const response& r) { how = r.how(); });
    one.node.wake();
    net.run_for(100ms);
    return how.code();
  };
  const auto command = [&](const std::string& name) {
    status how;
    one.node.user().command(2, {name}, 1s, [&](status s, const command_reply&) { how = s; });
    one.node.wake();
    net.run_for(100ms);
    return how.code();
  };
  EXPECT_EQ(ask(7), errc::ok);
  EXPECT_EQ(ask(8), errc::denied);
  EXPECT_EQ(command("status"), errc::ok);
  EXPECT_EQ(command("stop"), errc::denied);
  EXPECT_EQ(handled, 2);
  EXPECT_EQ(two.core().stats().access_denied, 2U);
}

TEST_F(NodeAccess, LetsOnlyThoseRegisterThatAreNamed) {
  write("send = \"any\"\n[[register]]\nids = [1]\nfrom = \"any\"\n");
  party two{net, 2, with_rules()};
  party one{net, 1};
  party three{net, 3};
  connect(one, 2);
  three.connect(2);
  net.run_for(10s);
  EXPECT_FALSE(three.is_connected(2));
  EXPECT_EQ(three.count(endpoint_event::refused), 1);
  EXPECT_GE(two.logged("node 3 may not register from"), 1);
  EXPECT_EQ(three.logged("node 3 may not register from"), 1);
  EXPECT_TRUE(one.is_connected(2));
}

TEST_F(NodeAccess, DoesNotRegisterWithANodeThatItsOwnRulesDoNotName) {
  write("send = \"any\"\n[[register]]\nids = [1]\nfrom = \"any\"\n");
  party two{net, 2, with_rules()};
  party three{net, 3};
  two.connect(3);
  net.run_for(10s);
  EXPECT_FALSE(two.is_connected(3));
}

TEST_F(NodeAccess, EndsWhatNewRulesForbid) {
  write("register = \"any\"\nsend = \"any\"\n");
  party one{net, 1};
  party two{net, 2, with_rules()};
  party three{net, 3};
  connect(one, 2);
  connect(three, 2);
  rewrite("send = \"any\"\n[[register]]\nids = [3]\nfrom = \"any\"\n");
  EXPECT_EQ(two.logged("hold from now on"), 1);
  EXPECT_FALSE(one.is_connected(2));
  EXPECT_FALSE(two.is_connected(1));
  EXPECT_TRUE(three.is_connected(2));
  rewrite("register = \"any\"\nsend = \"any\"\n");
  net.run_for(10s);
  EXPECT_TRUE(one.is_connected(2));
}

TEST_F(NodeAccess, ChecksOpenLinksByNewRules) {
  write("register = \"any\"\nsend = \"any\"\n");
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  const auto both_send = [&] {
    const status from_one = one.send(2, "text");
    const status from_two = two.send(1, "text");
    net.run_for(100ms);
    return std::pair{from_one.code(), from_two.code()};
  };
  EXPECT_EQ(both_send(), (std::pair{errc::ok, errc::ok}));
  rewrite(std::string{anybody_registers} + nothing_is_sent);
  EXPECT_EQ(both_send(), (std::pair{errc::ok, errc::denied}));
  rewrite("register = \"any\"\nsend = \"any\"\n");
  EXPECT_EQ(both_send(), (std::pair{errc::ok, errc::ok}));
  EXPECT_EQ(one.got.size(), 2U);
  EXPECT_EQ(two.got.size(), 2U);
  EXPECT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(two.logged("hold from now on"), 2);
}

TEST_F(NodeAccess, SaysNothingOfAFileThatSaysTheSame) {
  write("register = \"any\"\nsend = \"any\"\n");
  party one{net, 1, with_rules()};
  rewrite("register = \"any\"\nsend = \"any\"  # all\n");
  EXPECT_EQ(one.logged("hold from now on"), 0);
}

TEST_F(NodeAccess, ChecksTheIdsOfChildrenWhenTheirParentRegisters) {
  write("send = \"any\"\n[[register]]\nids = [\"80/62\"]\nfrom = \"any\"\n");
  party root{net, 64, with_rules().children("64/58")};
  party wide{net, 80, plain().parent(address_of(64)).children("80/60")};
  net.run_for(10s);
  EXPECT_FALSE(wide.is_connected(64));
  EXPECT_GE(root.logged("node 80 with the ids"), 1);
}

// Over a link of their own they could say what they like.
TEST_F(NodeAccess, DoesNotIntroduceChildrenThatMayNotMeet) {
  write(anybody_registers + may_send("[83]", "[84]", "messages = [1]"));
  party parent{net, 80, with_rules().children("80/60")};
  party one{net, 81, plain().parent(address_of(80))};
  party two{net, 82, plain().parent(address_of(80))};
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(80) && two.is_connected(80); }, 10s));
  for (std::size_t sent = 1; sent != 4; ++sent) {
    EXPECT_TRUE(two.send(81, "no"));
    ASSERT_TRUE(net.run_until([&] { return two.reports.size() == sent; }, 50s));
    EXPECT_EQ(two.reports.back().reason, errc::denied);
    net.run_for(61s);  // it is asked for again
  }
  EXPECT_TRUE(one.got.empty());
}

// One that dials decides when it is answered, and is registered two messages later.
// Where it is was checked as node 5: it can't be another one that may come from elsewhere only.
TEST_F(NodeAccess, LetsANodeRegisterOverOthersInItsOwnNameAlone) {
  write(
      "[[register]]\nids = [5]\nfrom = \"any\"\n"
      "[[register]]\nids = [9]\nfrom = [\"10.9.9.9\"]\n" +
      may_send("[9]", "[2]", "messages = [3]"));
  party two{net, 2, with_rules()};
  {
    hand_played nine{net, 9, 2, true};
    net.run_for(1s);
    EXPECT_FALSE(nine.is_registered());
  }
  hand_played five{net, 5, 2, true};
  ASSERT_TRUE(net.run_until([&] { return five.is_registered(); }, 5s));
  hand_played_circuit as_nine{five, 5, 2, introduction_of(9, 78), 1};
  ASSERT_TRUE(net.run_until([&] { return as_nine.look(); }, 5s));
  EXPECT_EQ(as_nine.problem(), errc::denied);
  as_nine.say(flow_body{.next = 1, .before = 0, .turn = 1});
  byte_buffer forged(message_head_size);
  encode(message_head{.type = 3}, forged.data());
  as_nine.say_bytes(forged);
  net.run_for(1s);
  EXPECT_TRUE(two.got.empty());
  EXPECT_FALSE(two.is_connected(9));
  EXPECT_EQ(two.core().stats().violations, 1U);
  EXPECT_EQ(two.logged("node 5 can't register over other nodes as node 9"), 1);
  hand_played_circuit as_itself{five, 5, 2, introduction_of(5, 77), 2};
  ASSERT_TRUE(net.run_until([&] { return as_itself.look(); }, 5s));
  EXPECT_TRUE(as_itself.is_registered()) << as_itself.problem().text();
}

TEST_F(NodeAccess, DoesNotRegisterIfTheRulesChangeMeanwhile) {
  for (std::chrono::seconds changed = 0s; changed != 30s; ++changed) {
    SCOPED_TRACE(changed.count());
    write("register = \"any\"\nsend = \"any\"\n");
    simulated_network slow{1};
    slow.conditions.delay_min = slow.conditions.delay_max = 4s;
    party one{slow, 1, with_rules()};
    party two{slow, 2};
    one.connect(2);
    slow.run_for(changed);
    write(std::string{"register = []\n"} + nothing_is_sent);
    slow.run_for(60s);
    EXPECT_FALSE(one.is_connected(2));
  }
}

// A message has one outcome, whatever a handler does when it is told of it.
TEST_F(NodeAccess, SettlesEachMessageOnceThoughAHandlerDisconnects) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [0]"));
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  std::map<std::uint64_t, int> outcomes;
  one.core().handlers().on_undelivered = [&](const undelivered& what) {
    ++outcomes[what.number()];
    if (what.reason() == errc::denied) {
      EXPECT_TRUE(one.node.user().disconnect(2));
    }
  };
  for (int i = 0; i != 30; ++i)
    ASSERT_TRUE(one.node.user().send(2, i % 3 == 1 ? 8U : 0U, "text"));
  one.node.wake();
  net.run_for(60s);
  EXPECT_FALSE(outcomes.empty());
  for (const auto& [number, count] : outcomes)
    EXPECT_EQ(count, 1) << number;
}

// The word of it may come before the lane shows that it was handled.
TEST_F(NodeAccess, SettlesOnceWhatALaneDoesNotShowAsHandledYet) {
  party one{net, 1};
  EXPECT_TRUE(one.core().listen("shm://one"));
  hand_played two{net, 2, 1, true, true, {}, "shm://one"};
  ASSERT_TRUE(net.run_until([&] { return two.is_registered() && one.is_connected(2); }, 5s));
  net.run_for(1s);
  std::vector<errc> reasons;
  one.core().handlers().on_undelivered = [&](const undelivered& what) {
    reasons.push_back(what.reason());
    (void)one.node.user().disconnect(2);
  };
  two.stop_reading();
  EXPECT_TRUE(one.send(2, "no"));
  two.say(turned_away_body{.number = 1});
  net.run_for(10s);
  EXPECT_EQ(reasons, std::vector{errc::denied});
}

// The word of it is said again over the next link if the other end does not know that it has come.
TEST_F(NodeAccess, ReportsARefusedMessageOnceThoughItsWordComesTwice) {
  write(std::string{anybody_registers} + nothing_is_sent);
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(two, 1);
  EXPECT_TRUE(one.send(2, "no"));
  ASSERT_TRUE(net.run_until([&] { return !one.reports.empty(); }, 1s));
  net.cut(1, 2, testing::seen_by::both);
  net.run_for(10s);
  EXPECT_TRUE(one.is_connected(2));
  ASSERT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(one.reports[0].reason, errc::denied);
}

TEST_F(NodeAccess, ReportsOnceWhatIsGivenUpBeforeTheWordComes) {
  write(std::string{anybody_registers} + nothing_is_sent);
  for (const bool disconnects : {false, true}) {
    simulated_network other{1};
    party one{other, 1, plain().message_deadline(300ms)};
    party two{other, 2, with_rules()};
    two.connect(1);
    ASSERT_TRUE(other.run_until([&] { return one.is_connected(2); }, 5s));
    other.run_for(5ms);
    EXPECT_TRUE(one.send(2, "no"));
    ASSERT_TRUE(other.run_until([&] { return two.core().stats().access_denied != 0; }, 1s));
    ASSERT_TRUE(one.reports.empty());
    other.cut(1, 2, testing::seen_by::both);
    other.separate(1, 2);
    if (disconnects) {
      EXPECT_TRUE(one.core().disconnect(2));
      one.node.wake();
    }
    other.run_for(1s);
    other.join(1, 2);
    other.run_for(20s);
    EXPECT_TRUE(one.is_connected(2));
    ASSERT_EQ(one.reports.size(), 1U);
    EXPECT_EQ(one.reports[0].outcome, errc::outcome_unknown);
  }
}

// Numbers of requests whose time is over are between them.
TEST_F(NodeAccess, ReportsEachRefusedMessageHoweverManyNumbersAreBetweenThem) {
  write(anybody_registers + may_send("[1]", "[2]", "requests = \"any\""));
  party one{net, 1};
  party two{net, 2, with_rules()};
  std::vector<request> kept;
  two.node.user().on_request([&](request& r) { kept.push_back(r.detach()); });
  net.conditions.delay_min = net.conditions.delay_max = 10ms;
  connect(one, 2);
  net.run_for(50ms);
  constexpr std::size_t many = 2048;
  for (std::size_t i = 0; i != many; ++i) {
    EXPECT_TRUE(one.node.user().request(2, 7, "", 300ms, [](const response&) {}));
    EXPECT_TRUE(one.node.user().send(2, 8, "no"));
  }
  one.node.wake();
  ASSERT_TRUE(net.run_until([&] { return two.core().stats().access_denied == many; }, 1s));
  net.cut(1, 2, testing::seen_by::both);
  net.separate(1, 2);
  net.run_for(1s);
  net.join(1, 2);
  net.run_for(20s);
  EXPECT_TRUE(one.is_connected(2));
  EXPECT_GT(one.core().stats().outcome_unknown, 256U) << "requests";
  EXPECT_EQ(one.reports.size(), many);
}

// The sender does not poll for a while. The words take all the room that the link has for them.
TEST_F(NodeAccess, TellsOfEachRefusedMessageThoughTheirWordsHaveFilledALink) {
  write(std::string{anybody_registers} + nothing_is_sent);
  net.conditions.kernel_holds = std::size_t{16} * 1024;
  for (const bool dials : {false, true}) {
    party one{net, 1, plain().send_buffer_size(std::size_t{256} * 1024)};
    party two{net, 2, with_rules().send_buffer_size(std::size_t{256} * 1024)};
    connect(dials ? one : two, dials ? 2 : 1);
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    one.node.stop_until(net.now() + 2s);
    std::size_t sent = 0;
    for (int i = 0; i != 500; ++i) {
      while (one.node.user().send(2, 0, "x"))
        ++sent;
      one.node.user().flush();
      net.run_for(2ms);
    }
    net.run_for(60s);
    EXPECT_TRUE(one.is_connected(2));
    EXPECT_EQ(one.reports.size(), sent);
    EXPECT_TRUE(one.node.user().is_settled());
  }
}

// What a lane shows as handled its sender does not have any more, and it leaves without reading the words.
TEST_F(NodeAccess, TellsASenderOfWhatItHadRefusedBeforeItDisconnected) {
  write(std::string{anybody_registers} + nothing_is_sent);
  for (const std::string at : {"ipv4://10.0.0.1:7001", "unix:///one", "shm://one", "mem://one"}) {
    SCOPED_TRACE(at);
    simulated_network other{1};
    party one{other, 1, plain(), host_of(1)};
    party two{other, 2, with_rules(), host_of(1)};
    EXPECT_TRUE(one.core().listen(at));
    EXPECT_TRUE(two.core().connect(1, at));
    two.node.wake();
    ASSERT_TRUE(other.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    other.run_for(1s);
    for (int i = 0; i != 10; ++i)
      EXPECT_TRUE(one.node.user().send(2, 0, "no"));
    one.node.user().flush();
    one.node.stop_until(other.now() + 1s);
    ASSERT_TRUE(other.run_until([&] { return two.core().stats().access_denied == 10; }, 900ms));
    EXPECT_TRUE(one.reports.empty());
    EXPECT_TRUE(one.core().disconnect(2));
    other.run_for(60s);
    EXPECT_TRUE(two.is_connected(1));
    EXPECT_EQ(one.reports.size(), 10U);
  }
}

// The position that a later link tells has settled them.
TEST_F(NodeAccess, KeepsTheWordsOfMessagesThatAPositionHasSettled) {
  write(std::string{anybody_registers} + nothing_is_sent);
  for (const bool disconnects : {false, true}) {
    simulated_network other{1};
    other.conditions.delay_min = other.conditions.delay_max = 10ms;
    party one{other, 1};
    party two{other, 2, with_rules().first_idle_timeout(1s)};
    one.connect(2);
    ASSERT_TRUE(other.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    other.run_for(50ms);
    for (int i = 0; i != 100; ++i)
      EXPECT_TRUE(one.send(2, "no"));
    ASSERT_TRUE(other.run_until([&] { return two.core().stats().access_denied == 100; }, 1s));
    other.cut(1, 2, testing::seen_by::both);
    ASSERT_TRUE(other.run_until([&] { return one.core().stats().registrations == 2; }, 5s));
    ASSERT_LT(one.reports.size(), 90U) << "they come after that";
    other.cut(1, 2, testing::seen_by::both);
    other.separate(1, 2);
    if (disconnects) {
      EXPECT_TRUE(two.core().disconnect(1));
      two.node.wake();
    }
    ASSERT_TRUE(other.run_until([&] { return two.core().endpoints().empty(); }, 20s));
    other.join(1, 2);
    other.run_for(20s);
    EXPECT_TRUE(one.is_connected(2));
    EXPECT_EQ(one.reports.size(), 100U);
  }
}

// The words go over the link that brings the messages, which may be another one than the node itself sends through.
TEST_F(NodeAccess, TellsOfRefusedMessagesWhileTwoLinksBecomeOne) {
  write(std::string{anybody_registers} + nothing_is_sent);
  for (std::uint64_t seed = 1; seed != 200; ++seed) {
    SCOPED_TRACE(seed);
    simulated_network other{seed};
    party one{other, 1};
    party two{other, 2, with_rules()};
    one.connect(2);
    two.connect(1);
    other.run_for(100us * other.draw(40));
    std::size_t sent = 0;
    for (int i = 0; i != 50; ++i)
      sent += one.send(2, "no") ? 1 : 0;
    const std::uint64_t refused = other.draw(50);
    (void)other.run_until([&] { return two.core().stats().access_denied > refused; }, 5s);
    other.cut(1, 2, testing::seen_by::both);
    other.run_for(20s);
    EXPECT_TRUE(one.is_connected(2));
    EXPECT_EQ(one.reports.size(), sent);
  }
}

// Also if nothing but these words is to be kept of that node.
TEST_F(NodeAccess, KeepsTheWordsForOneThatComesBack) {
  write(std::string{anybody_registers} + nothing_is_sent);
  for (const bool disconnects : {false, true}) {
    simulated_network other{1};
    party one{other, 1};
    party two{other, 2, with_rules()};
    one.connect(2);
    ASSERT_TRUE(other.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    other.run_for(5ms);
    for (int i = 0; i != 100; ++i)
      EXPECT_TRUE(one.send(2, "no"));
    ASSERT_TRUE(other.run_until([&] { return two.core().stats().access_denied == 100; }, 1s));
    ASSERT_LT(one.reports.size(), 100U);
    other.cut(1, 2, testing::seen_by::both);
    if (disconnects) {
      EXPECT_TRUE(two.core().disconnect(1));
      two.node.wake();
    }
    other.run_for(20s);
    EXPECT_EQ(one.reports.size(), 100U);
    for (const auto& each : one.reports)
      EXPECT_EQ(each.reason, errc::denied);
  }
}

// Its position is forgotten with the words: no message counts as delivered that was refused.
TEST_F(NodeAccess, KeepsNoPositionWithoutTheWordsItCovers) {
  write(std::string{anybody_registers} + nothing_is_sent);
  party one{net, 1};
  party two{net, 2, with_rules().first_idle_timeout(1s)};
  connect(one, 2);
  for (int i = 0; i != 100; ++i)
    EXPECT_TRUE(one.send(2, "no"));
  ASSERT_TRUE(net.run_until([&] { return two.core().stats().access_denied == 100; }, 1s));
  net.cut(1, 2, testing::seen_by::both);
  net.separate(1, 2);
  ASSERT_TRUE(net.run_until([&] { return two.core().endpoints().empty(); }, 20s));
  net.join(1, 2);
  net.run_for(20s);
  EXPECT_TRUE(one.is_connected(2));
  EXPECT_EQ(one.reports.size(), 100U);
}

// What was acknowledged is reported, also if the handler that is told of it ends the link.
TEST_F(NodeAccess, LosesNoMessageThoughAHandlerDisconnects) {
  write(std::string{anybody_registers} + nothing_is_sent);
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  std::map<std::uint64_t, int> outcomes;
  one.core().handlers().on_undelivered = [&](const undelivered& what) {
    ++outcomes[what.number()];
    (void)one.node.user().disconnect(2);
  };
  for (int i = 0; i != 30; ++i)
    ASSERT_TRUE(one.node.user().send(2, 8, "text"));
  one.node.wake();
  net.run_for(60s);
  EXPECT_EQ(outcomes.size(), 30U);
  for (const auto& [number, count] : outcomes)
    EXPECT_EQ(count, 1) << number;
}

// run() and shutdown() end when all is settled: nothing is told any more after that.
TEST_F(NodeAccess, SettlesNoMessageBeforeItIsReported) {
  write(std::string{anybody_registers} + nothing_is_sent);
  net.conditions.kernel_holds = 1;  // each message comes alone
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  for (std::size_t sent = 1; sent <= 30; ++sent) {
    EXPECT_TRUE(one.send(2, "no"));
    ASSERT_TRUE(net.run_until([&] { return one.node.user().is_settled(); }, 5s));
    EXPECT_EQ(one.reports.size(), sent);
  }
}

TEST_F(NodeAccess, FindsRoomToTurnAMessageAwayWhereDataHasNone) {
  write(anybody_registers + may_send("[2]", "[1]", "messages = \"any\""));
  party one{net, 1};
  party two{net, 2, with_rules()};
  connect(one, 2);
  EXPECT_TRUE(one.send(2, "no"));
  for (const std::size_t size : {1000U, 0U}) {
    while (two.node.user().send(1, 0, std::string(size, 'x'))) {
    }
  }
  ASSERT_TRUE(net.run_until([&] { return !one.reports.empty(); }, 1s));
  EXPECT_EQ(one.reports[0].reason, errc::denied);
}

// An earlier incarnation may have handled it, so it is not proven that no handler has.
TEST_F(NodeAccess, SaysThatAnEarlierIncarnationMayHaveHandledWhatItTurnsAway) {
  party one{net, 1};
  std::optional<party> two;
  two.emplace(net, 2);
  connect(one, 2);
  EXPECT_TRUE(one.send(2, "text"));
  ASSERT_TRUE(net.run_until([&] { return !two->got.empty(); }, 1s));
  two.reset();  // before it has acknowledged the message
  write(std::string{anybody_registers} + nothing_is_sent);
  two.emplace(net, 2, with_rules());
  ASSERT_TRUE(net.run_until([&] { return !one.reports.empty(); }, 20s));
  EXPECT_EQ(one.reports[0].outcome, errc::outcome_unknown);
  EXPECT_EQ(one.reports[0].reason, errc::denied);
}

TEST_F(NodeAccess, ReportsWhatWaitsAndMayNotBeSentAnyMore) {
  write("register = \"any\"\nsend = \"any\"\n");
  party one{net, 1, with_rules()};
  one.connect(2);  // which is not there yet
  EXPECT_TRUE(one.node.user().send(2, 5, "five"));
  EXPECT_TRUE(one.node.user().send(2, 6, "six"));
  status asked;
  status commanded;
  one.node.user().request(2, 5, "", 1h, [&](const response& r) { asked = r.how(); });
  one.node.user().command(2, {"stop"}, 1h, [&](status s, const command_reply&) { commanded = s; });
  rewrite(anybody_registers + may_send("[1]", "[2]", "messages = [6]"));
  ASSERT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(one.reports[0].text, "five");
  EXPECT_EQ(one.reports[0].outcome, errc::not_delivered);
  EXPECT_EQ(one.reports[0].reason, errc::denied);
  EXPECT_EQ(asked, errc::denied);
  EXPECT_EQ(commanded, errc::denied);
  party two{net, 2};
  ASSERT_TRUE(net.run_until([&] { return !two.got.empty(); }, 20s));
  EXPECT_EQ(two.got, texts{"six"});
}

TEST_F(NodeAccess, KeepsItsRulesWhileTheFileIsWrong) {
  write(anybody_registers + may_send("[1]", "[2]", "messages = [0]"));
  party one{net, 1, with_rules()};
  party two{net, 2};
  connect(one, 2);
  rewrite("register = \"any\"\nsend = \"all\"\n");
  rewrite("register = \"any\"\nsend = \"al\"\n");
  EXPECT_EQ(one.logged(path + ":2:8: 'send' is a list of entries"), 1);
  EXPECT_TRUE(one.send(2, "text"));
  EXPECT_EQ(one.node.user().send(2, 1, "no"), errc::denied);
  ASSERT_EQ(unlink(path.c_str()), 0);
  net.run_for(6s);
  EXPECT_EQ(one.logged("can't be read"), 1);
  EXPECT_EQ(one.node.user().send(2, 1, "no"), errc::denied);
  rewrite(anybody_registers + may_send("[1]", "[2]", "messages = [1]"));
  EXPECT_TRUE(one.node.user().send(2, 1, "yes"));
}

TEST_F(NodeAccess, DoesNotStartWithoutValidRules) {
  node missing{7, plain().access(path)};
  EXPECT_EQ(missing.listen("unix://@atbus-access-test"), errc::not_found);
  write("register = \"any\"\n");
  node wrong{7, plain().access(path)};
  const error refused = wrong.listen("unix://@atbus-access-test");
  EXPECT_EQ(refused, errc::invalid_argument);
  EXPECT_NE(refused.text().find("there is no 'send'"), std::string::npos);
}

// The relay above 81 and 82 has rules; no other node has any.
class RelayAccess : public tree_of_six {
 protected:
  node_options relay_options(std::string_view range) override {
    if (range != "80/60")
      return tree_of_six::relay_options(range);
    std::ofstream{path} << anybody_registers + may_send("[81]", "[97]", "messages = [1]") +
                               may_send("[\"80/60\"]", "[\"80/60\"]", "broadcasts = [1]");
    return tree_of_six::relay_options(range).access(path);
  }

  test::scratch_directory scratch;
  std::string path = scratch.path() + "/access.toml";
};

TEST_F(RelayAccess, LetsPassWhatNodesThatMayMeetSayToEachOther) {
  EXPECT_TRUE(one->send(97, "text"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_TRUE(far->send(81, "back"));
  ASSERT_TRUE(until([&] { return one->got.size() == 1; }));
}

TEST_F(RelayAccess, SaysWhatItDoesNotLetPass) {
  EXPECT_TRUE(two->send(97, "no"));
  ASSERT_TRUE(until([&] { return !two->reports.empty(); }));
  EXPECT_EQ(two->reports[0].reason, errc::denied);
  EXPECT_EQ(two->reports[0].outcome, errc::not_delivered);
  EXPECT_TRUE(far->got.empty());
  EXPECT_GE(relay_a->core().stats().access_denied, 1U);
  EXPECT_GE(relay_a->logged("node 82 sends to node 97 by way of this one"), 1);
}

TEST_F(RelayAccess, LetsPassWhatNewRulesAllowAndNothingElse) {
  EXPECT_TRUE(one->send(97, "text"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  std::ofstream{path} << anybody_registers + may_send("[82]", "[97]", "messages = [1]");
  net.run_for(6s);
  EXPECT_TRUE(one->send(97, "no"));
  EXPECT_TRUE(two->send(97, "yes"));
  ASSERT_TRUE(until([&] { return far->got.size() == 2 && !one->reports.empty(); }));
  EXPECT_EQ(far->got[1], "yes");
}

TEST_F(RelayAccess, PassesOnTheBroadcastsThatItsRulesAllow) {
  const auto broadcast = [&](const char* range, std::uint32_t type) {
    EXPECT_TRUE(one->core().broadcast().send(*id_range::parse(range), type, as_bytes("all")));
    one->node.wake();
    net.run_for(1s);
  };
  broadcast("64/58", 1);
  EXPECT_TRUE(far->got.empty());
  EXPECT_TRUE(two->got.empty());
  broadcast("80/60", 2);
  EXPECT_TRUE(two->got.empty());
  broadcast("80/60", 1);
  EXPECT_EQ(two->got.size(), 1U);
  EXPECT_EQ(relay_a->core().stats().access_denied, 2U);
  EXPECT_EQ(relay_a->core().stats().violations, 0U);
}

}  // namespace
}  // namespace atbus::detail
