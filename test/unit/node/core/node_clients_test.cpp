// Nodes without a bus id: they ask one node for something, and may do nothing else.
#include "command_message.h"
#include "protocol/broadcast_head.h"
#include "routed_message.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class client_end {
 public:
  explicit client_end(simulated_network& net, const node_options& options = plain(),
                      host_identity host = {}, const std::string& at = address_of(1))
      : node(net, 0, options, host) {
    node.user().on_log([this](std::string_view line) { log.emplace_back(line); });
    node.user().on_endpoint(
        [this](const endpoint&, endpoint_event event) { events.push_back(event); });
    EXPECT_TRUE(node.user().connect(0, at));
    node.wake();
  }
  void ask(const command_words& what, std::chrono::nanoseconds timeout = 5s) {
    EXPECT_TRUE(node.user().command(0, what, timeout, [this](status s, const command_reply& r) {
      told.emplace_back(s.code());
      text = r.text();
    }));
    node.wake();
  }

  std::vector<errc> told;
  std::string text;
  std::vector<std::string> log;
  std::vector<endpoint_event> events;
  simulated_node node;  // ends first: it tells what is open
};

class NodeClients : public ::testing::Test {
 protected:
  NodeClients() { answer_with(one); }
  static void answer_with(party& asked) {
    asked.node.user().on_command([](command& c) {
      EXPECT_EQ(c.source(), bus_id{0});
      c.reply("you said " + std::string{c.name()});
    });
  }
  void keep(party& asked) {
    asked.node.user().on_command([this](command& c) { kept.push_back(c.detach()); });
  }
  void expect_late_answer(party& asked, const client_end& client) {
    EXPECT_TRUE(kept.at(0).reply("after all"));
    asked.node.wake();
    net.run_for(1s);
    EXPECT_EQ(client.text, "after all");
  }

  simulated_network net{1};
  party one{net, 1, plain().clients(2)};
  std::vector<command> kept;
};

TEST_F(NodeClients, AskTheNodeThatIsThere) {
  client_end first{net};
  client_end second{net};
  first.ask("a");
  second.ask("b");
  net.run_for(1s);
  EXPECT_EQ(first.told, std::vector<errc>{errc::ok});
  EXPECT_EQ(first.text, "you said a");
  EXPECT_EQ(second.text, "you said b");
  EXPECT_TRUE(one.events.empty());
  EXPECT_TRUE(one.core().endpoints().empty());
  EXPECT_EQ(one.send(0, "x"), errc::no_route);
  EXPECT_TRUE(one.core().settled());
  EXPECT_EQ(one.logged("a client is here"),
            1);  // once a second: anybody may ask as often as he likes
  ASSERT_FALSE(first.log.empty());
  EXPECT_TRUE(first.log[0].starts_with("connected to 1 through ")) << first.log[0];
  EXPECT_TRUE(first.node.user().disconnect(0));
  first.node.wake();
  net.run_for(1s);
  EXPECT_EQ(one.logged(" leaves: "), 0);
}

TEST_F(NodeClients, LeaveNothingBehind) {
  party small{net, 2, plain().clients(1).sessions(1)};
  answer_with(small);
  for (int i = 0; i < 20; ++i) {
    client_end each{net};
    EXPECT_TRUE(each.node.user().connect(0, address_of(2)));
    EXPECT_TRUE(each.node.user().disconnect(0));
    EXPECT_TRUE(each.node.user().connect(0, address_of(2)));
    each.ask("x");
    net.run_for(500ms);
    ASSERT_EQ(each.told, std::vector<errc>{errc::ok});
  }
  net.run_for(1s);
  EXPECT_EQ(small.core().stats().sessions_forgotten, 0U);
  EXPECT_EQ(small.core().stats().links_lost, 0U);
  EXPECT_EQ(small.logged("is lost"), 0);
  EXPECT_TRUE(small.core().endpoints().empty());
}

TEST_F(NodeClients, AreLimitedInNumber) {
  client_end first{net};
  auto second = std::make_unique<client_end>(net);
  net.run_for(1s);
  client_end third{net};
  third.ask("late", 30s);
  net.run_for(5s);
  EXPECT_TRUE(third.told.empty());
  EXPECT_EQ(third.events, std::vector<endpoint_event>{endpoint_event::refused});
  EXPECT_GE(one.logged("clients are here already"), 1);
  second.reset();
  net.run_for(10s);
  EXPECT_EQ(third.told, std::vector<errc>{errc::ok});
}

TEST_F(NodeClients, CanDoNothingElse) {
  client_end client{net};
  net.run_for(1s);
  node& of = client.node.user();
  EXPECT_EQ(of.send(0, 0, "x"), errc::not_supported);
  EXPECT_EQ(of.send(0, 0, ""), errc::not_supported);
  EXPECT_EQ(of.send(1, 0, "x"), errc::not_supported);
  EXPECT_EQ(of.claim(0, 0, 8).why(), errc::not_supported);
  EXPECT_EQ(of.broadcast(*id_range::parse("0x10000/48"), 0, as_bytes("x")), errc::not_supported);
  EXPECT_EQ(of.listen(address_of(9)), errc::invalid_argument);
  EXPECT_EQ(of.connect(1, address_of(1)), errc::invalid_argument);
  EXPECT_EQ(of.command(1, "x", 1s, [](status, const command_reply&) {}), errc::no_route);
  client.ask("a");
  net.run_for(1s);
  EXPECT_EQ(client.told, std::vector<errc>{errc::ok});
}

TEST_F(NodeClients, NeedTheToken) {
  party guarded{net, 2, node_options{}.token("a secret of sixteen bytes")};
  answer_with(guarded);
  client_end without{net, node_options{}.token("another of sixteen bytes")};
  client_end with{net, node_options{}.token("a secret of sixteen bytes")};
  for (client_end* each : {&without, &with}) {
    EXPECT_TRUE(each->node.user().disconnect(0));
    EXPECT_TRUE(each->node.user().connect(0, address_of(2)));
    each->ask("x", 3s);
  }
  net.run_for(5s);
  EXPECT_EQ(with.told, std::vector<errc>{errc::ok});
  EXPECT_EQ(without.told, std::vector<errc>{errc::timed_out});
  EXPECT_EQ(without.events, std::vector<endpoint_event>{endpoint_event::refused});
}

TEST_F(NodeClients, ThatHaveGoneAreNotAnswered) {
  keep(one);
  auto client = std::make_unique<client_end>(net);
  client->ask("x");
  net.run_for(1s);
  ASSERT_EQ(kept.size(), 1U);
  client.reset();
  net.run_for(1s);
  EXPECT_EQ(kept[0].reply("nobody"), errc::peer_closed);
  EXPECT_TRUE(one.core().endpoints().empty());
}

TEST_F(NodeClients, AreAnsweredWhenTheirLinkIsBack) {
  keep(one);
  client_end client{net};
  client.ask("x", 30s);
  net.run_for(1s);
  ASSERT_EQ(kept.size(), 1U);
  net.cut(0, seen_by::both);
  net.run_for(5s);
  expect_late_answer(one, client);
}

// The node has forgotten how far the client had come, and says so.
TEST_F(NodeClients, HaveTheirCommandCarriedOutOnceIfItsAnswerIsLost) {
  int carried_out = 0;
  one.node.user().on_command([&](command& c) {
    ++carried_out;
    net.cut(0, 1, seen_by::both);
    (void)c.reply("done");
  });
  client_end client{net};
  client.ask("pay");
  net.run_for(4s);
  EXPECT_EQ(carried_out, 1);
  EXPECT_EQ(client.told, std::vector<errc>{errc::superseded});
}

TEST_F(NodeClients, TakeTheirOwnPlaceWhenTheyComeBackUnseen) {
  party small{net, 2, plain().clients(1)};
  keep(small);
  client_end client{net, plain().ping_interval(100ms), {}, address_of(2)};
  client.ask("x", 30s);
  net.run_for(500ms);
  ASSERT_EQ(kept.size(), 1U);
  net.cut(0, seen_by::none);
  net.run_for(2s);
  EXPECT_EQ(small.logged("clients are here already"), 0);
  expect_late_answer(small, client);
}

TEST_F(NodeClients, HaveNoSuccessorsThatMessagesWaitFor) {
  party small{net, 2, plain().clients(1)};
  answer_with(small);
  ASSERT_TRUE(small.core().listen("shm://two"));
  auto client = std::make_unique<client_end>(net, plain(), host_of(2), "shm://nobody");
  ASSERT_TRUE(client->node.channels().listen(*address::parse("shm://visitor")));
  ASSERT_TRUE(client->node.user().connect(0, "shm://two"));
  client->ask("x");
  net.run_for(1s);
  ASSERT_EQ(client->told, std::vector<errc>{errc::ok});
  client.reset();
  net.run_for(1s);
  client_end next{net, plain(), {}, address_of(2)};
  next.ask("y");
  net.run_for(1s);
  EXPECT_EQ(next.told, std::vector<errc>{errc::ok});
}

TEST_F(NodeClients, TakeNoMoreThanTheirPlacesHoweverManyTheyAre) {
  std::vector<std::unique_ptr<hand_played>> crowd;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    crowd.push_back(std::make_unique<hand_played>(
        net, 0, 1, true, true, [i](introduction& self) { self.incarnation = 1000 + i; }));
  }
  net.run_for(1s);
  const auto is_here = [](const auto& at) { return at->is_registered() && !at->has_ended(); };
  EXPECT_EQ(std::ranges::count_if(crowd, is_here), 2);
  crowd.clear();
  net.run_for(1s);
  client_end late{net};
  late.ask("x");
  net.run_for(1s);
  EXPECT_EQ(late.told, std::vector<errc>{errc::ok});
}

TEST_F(NodeClients, AreNobodyToSendTo) {
  party wide{net, 2, plain().children("0/62")};
  EXPECT_EQ(wide.send(0, "x"), errc::no_route);
  EXPECT_EQ(wide.node.user().send(0, 0, "x", delivery_policy::require), errc::no_route);
  EXPECT_EQ(wide.node.user().command(0, "x", 1s, [](status, const command_reply&) {}),
            errc::no_route);
  EXPECT_TRUE(wide.core().endpoints().empty());
}

// The node at the other end may have dialled: it has found the client's lanes.
TEST_F(NodeClients, AreNotAskedForAnything) {
  simulated_node client{net, 0, plain(), host_of(9)};
  ASSERT_TRUE(client.channels().listen(*address::parse(address_of(9))));
  hand_played asker{net, 1, 9, true};
  ASSERT_TRUE(net.run_until([&] { return asker.is_registered(); }, 5s));
  net.run_for(5ms);
  asker.say(flow_body{.next = 1});
  net.run_for(5ms);
  ASSERT_FALSE(asker.has_ended());
  asker.say_bytes(command_message(flag_command, 0, 1, {"x"}));
  net.run_for(1s);
  EXPECT_TRUE(asker.has_ended());
  EXPECT_EQ(client.core().stats().violations, 1U);
  EXPECT_EQ(client.core().stats().commands, 0U);
}

TEST_F(NodeClients, DoNotComeByWayOfOtherNodes) {
  hand_played relay{net, 2, 1, true};
  ASSERT_TRUE(net.run_until([&] { return relay.is_registered(); }, 5s));
  net.run_for(5ms);
  introduction self;
  self.incarnation = 78;
  self.message_limit = 1024;
  const token_list none;
  handshake_initiator shake{self, 1, none, [](const peer_identity&) {
                              return result<resume_point>{resume_point{1, 0, true}};
                            }};
  std::uint64_t number = 0;
  const auto say = [&](bytes_view inner) {
    relay.say_bytes(
        routed_message({.destination = 1, .source = 2, .circuit = 5, .number = ++number}, {inner}));
  };
  const auto is_answer = [](const byte_buffer& message) {
    return message.size() > routed_head_size &&
           message[0] == static_cast<std::byte>(message_kind::routed);
  };
  say(shake.start().send);
  ASSERT_TRUE(net.run_until([&] { return std::ranges::any_of(relay.got, is_answer); }, 5s));
  const byte_buffer welcome = *std::ranges::find_if(relay.got, is_answer);
  say(shake.receive(first_message_of(welcome)).send);
  net.run_for(1s);
  EXPECT_EQ(one.logged("nor visit over others"), 1);
  EXPECT_EQ(one.core().stats().registrations, 1U) << "the relay's";
  EXPECT_FALSE(relay.has_ended());
}

TEST_F(NodeClients, SeeTheNodeLeave) {
  client_end client{net};
  client.ask("x");
  net.run_for(1s);
  one.core().leave();
  one.node.wake();
  net.run_for(100ms);
  EXPECT_TRUE(one.core().has_left());
  EXPECT_EQ(client.events.back(), endpoint_event::disconnected);
}

// What a client may not say.
struct misuse {
  const char* name;
  std::function<void(hand_played&)> say;
  const char* logged;
};

class NodeClientsBreach : public NodeClients, public ::testing::WithParamInterface<misuse> {};

TEST_P(NodeClientsBreach, EndsThatLinkAlone) {
  client_end good{net};
  hand_played bad{net, 0, 1, true};
  ASSERT_TRUE(net.run_until([&] { return bad.is_registered(); }, 5s));
  net.run_for(5ms);
  bad.say(flow_body{.next = 1});
  GetParam().say(bad);
  net.run_for(3s);
  EXPECT_TRUE(bad.has_ended());
  EXPECT_EQ(one.core().stats().violations, 1U);
  EXPECT_EQ(one.logged(GetParam().logged), 1);
  EXPECT_TRUE(one.got.empty());
  good.ask("still here");
  net.run_for(1s);
  EXPECT_EQ(good.told, std::vector<errc>{errc::ok});
}

INSTANTIATE_TEST_SUITE_P(
    Each, NodeClientsBreach,
    ::testing::Values(
        misuse{"AMessage", [](hand_played& at) { at.say_bytes(byte_buffer(9)); },
               "something else than commands"},
        misuse{"AReply",
               [](hand_played& at) { at.say_bytes(command_message(flag_reply, 0, 1, {"x"})); },
               "something else than commands"},
        misuse{"ABroadcast",
               [](hand_played& at) {
                 byte_buffer bytes(broadcast_head_size);
                 encode(
                     broadcast_head{
                         .to = *id_range::parse("16/60"), .source = bus_id{7}, .number = 1},
                     bytes.data());
                 at.say_bytes(bytes);
               },
               "in the name of 7"},
        misuse{"AnIdOfItsOwn",
               [](hand_played& at) {
                 hello_body hello;
                 hello.self.id = 7;
                 at.say(hello);
               },
               "handshake came after it"},
        misuse{"ARelayedMessage",
               [](hand_played& at) {
                 const byte_buffer message(message_head_size);
                 at.say_bytes(routed_message(
                     {.destination = 1, .source = {}, .circuit = 5, .number = 1}, {message}));
               },
               "relay"}),
    [](const auto& of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace atbus::detail
