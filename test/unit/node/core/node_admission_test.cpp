// Whom a node lets in, as whom, and how little those cost it who are not.
#include "node_core_fixture.h"

namespace atbus::detail {
namespace {

constexpr std::string_view secret = "a secret of sixteen bytes";

class NodeAdmission : public NodeCore {
 protected:
  // Node 9 has so many links to node 1, and says of none that it is the only one.
  void open_links(int count) {
    for (int i = 0; i != count; ++i) {
      links.push_back(std::make_unique<hand_played>(net, 9, 1, true, false));
      net.run_for(10ms);
    }
  }
  [[nodiscard]] std::ptrdiff_t ended_links() const {
    return std::ranges::count_if(links, [](const auto& link) { return link->has_ended(); });
  }

  std::vector<std::unique_ptr<hand_played>> links;
};

TEST(TokensOfOptions, AreWipedAndStayCounted) {
  node_options options = node_options{}.token(secret).token("another one of sixteen bytes");
  options.wipe_tokens();
  ASSERT_EQ(options.tokens().size(), 2U);
  for (const std::string& one : options.tokens())
    EXPECT_TRUE(std::ranges::all_of(one, [](char c) { return c == 0; }));
  EXPECT_TRUE(options.lets_through(*address::parse("ipv4://127.0.0.1:1")));
}

TEST_F(NodeAdmission, RegistersWithOneOfItsTokens) {
  party one{net, 1, node_options{}.token(secret)};
  party two{net, 2, node_options{}.token("another one, of today").token(secret)};
  connect(one, two, 2);
}

TEST_F(NodeAdmission, RefusesWhoHasAnotherTokenOrNoneAndLogsItOnceWhereItWasDialled) {
  party one{net, 1, node_options{}.token(secret)};
  party two{net, 2, node_options{}.token("another one, of today")};
  party three{net, 3};
  two.connect(1);
  three.connect(1);
  net.run_for(20s);
  EXPECT_FALSE(one.is_connected(2));
  EXPECT_FALSE(one.is_connected(3));
  EXPECT_GE(one.core().stats().registrations_failed, 4U);
  EXPECT_EQ(two.logged("registration with"), 1);
  EXPECT_EQ(three.logged("registration with"), 1);
  EXPECT_EQ(two.count(endpoint_event::refused), 1);
}

// 0, 100, 200, 400, 800, 1600, 3200, 4000, 4000, 4000 ms and what dialling again takes.
TEST_F(NodeAdmission, RefusesWhoComesWithWrongTokensLaterEachTimeAndNobodyElse) {
  party one{net, 1, node_options{}.token(secret)};
  party two{net, 2, node_options{}.token("another one, of today").retry(1ms, 1ms)};
  two.connect(1);
  net.run_for(14'200ms);
  EXPECT_EQ(one.core().stats().registrations_failed, 9U);
  EXPECT_EQ(two.core().stats().registrations_failed, 8U);
  party three{net, 3, node_options{}.token(secret)};
  three.connect(1);
  EXPECT_TRUE(net.run_until([&] { return three.is_connected(1); }, 100ms));
  net.run_for(5s);
  EXPECT_EQ(two.core().stats().registrations_failed, 10U);
  EXPECT_EQ(two.logged("registration with"), 1);
  EXPECT_EQ(two.count(endpoint_event::refused), 1);
}

TEST_F(NodeAdmission, RefusesWhoComesWithWrongTokensWhileHeStillListens) {
  const node_options hasty = node_options{}.first_idle_timeout(1s).retry(1ms, 1ms);
  party one{net, 1, node_options{hasty}.token(secret)};
  party two{net, 2, node_options{hasty}.token("another one, of today")};
  two.connect(1);
  net.run_for(1min);
  EXPECT_GT(two.core().stats().registrations_failed, 100U);
  EXPECT_EQ(two.logged("registration with"), 1);
  EXPECT_EQ(two.logged("in time"), 0);
}

TEST_F(NodeAdmission, ForgetsWhoHasGoneBeforeItsRefusalWasSaid) {
  party one{net, 1, node_options{}.token(secret)};
  {
    party two{net, 2, node_options{}.token("another one, of today").retry(1ms, 1ms)};
    two.connect(1);
    net.run_for(200ms);
  }
  net.run_for(10s);
  EXPECT_EQ(one.core().stats().registrations_failed, 3U);
  EXPECT_TRUE(one.core().endpoints().empty());
  EXPECT_TRUE(one.core().settled());
}

TEST_F(NodeAdmission, LogsWhatUnprovenPeersDoOnceASecond) {
  party one{net, 1};
  for (int i = 0; i < 20; ++i) {
    hand_played unproven{net, 9, 1, false};
    net.run_for(10ms);
    ASSERT_TRUE(unproven.is_open());
    unproven.say(ping_body{.number = 1});
    net.run_for(10ms);
    EXPECT_TRUE(unproven.has_ended());
  }
  EXPECT_EQ(one.core().stats().registrations_failed, 20U);
  EXPECT_EQ(one.logged("registration with"), 1);
  net.run_for(1s);
  hand_played again{net, 9, 1, false};
  net.run_for(10ms);
  again.say(ping_body{.number = 1});
  net.run_for(10ms);
  EXPECT_EQ(one.logged("registration with"), 2);
}

TEST_F(NodeAdmission, LogsSixtyLinesAMinuteOfANodeThatComesAndGoes) {
  party one{net, 1};
  const auto come_and_go = [&](int times) {
    for (int i = 0; i != times; ++i) {
      hand_played client{net, 9, 1, true};
      net.run_for(10ms);
      ASSERT_TRUE(client.is_registered());
      client.say(bye_body{});
      net.run_for(10ms);
    }
  };
  come_and_go(200);
  EXPECT_EQ(one.log.size(), 60U);
  EXPECT_EQ(one.logged("left out for a minute"), 1);
  party two{net, 2};
  two.connect(1);
  net.run_for(100ms);
  EXPECT_EQ(one.logged("connected to 2"), 1);
  net.run_for(1min);
  come_and_go(1);
  EXPECT_GT(one.log.size(), 61U);
}

TEST_F(NodeAdmission, TakesNoMoreThanSixtyFourLinksOfOnePeer) {
  party one{net, 1};
  open_links(70);
  EXPECT_EQ(ended_links(), 6);
  EXPECT_EQ(one.core().stats().registrations, 64U);
  party two{net, 2};
  two.connect(1);
  EXPECT_TRUE(net.run_until([&] { return two.is_connected(1); }, 1s));
  const hand_played only{net, 9, 1, true};
  net.run_for(10ms);
  EXPECT_TRUE(only.is_registered());
  EXPECT_EQ(ended_links(), 70);
}

TEST_F(NodeAdmission, LetsANextIncarnationInBesideSixtyFourSilentLinks) {
  party one{net, 1};
  open_links(64);
  party nine{net, 9};
  nine.connect(1);
  EXPECT_TRUE(net.run_until([&] { return nine.is_connected(1); }, 5s));
}

TEST_F(NodeAdmission, RefusesWhoWasNotDialled) {
  party one{net, 1};
  party two{net, 2};
  EXPECT_TRUE(one.core().connect(3, address_of(2)));
  one.node.wake();
  net.run_for(10s);
  EXPECT_EQ(one.logged("node 3 was dialled"), 1);
  EXPECT_FALSE(one.is_connected(2));
  EXPECT_FALSE(one.is_connected(3));
}

TEST_F(NodeAdmission, KeepsALivingHolderOfAnId) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  party other{net, 2};
  other.connect(1);
  net.run_for(20s);
  EXPECT_FALSE(other.is_connected(1));
  EXPECT_EQ(other.logged("is taken"), 1);
  EXPECT_EQ(one.core().endpoints().at(0).incarnation(), two.core().self().incarnation);
  EXPECT_EQ(one.count(endpoint_event::disconnected), 0);
}

TEST_F(NodeAdmission, GivesAHolderOfAnIdThatIsFarAwayTimeToAnswer) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  net.conditions.delay_min = net.conditions.delay_max = 300ms;
  party other{net, 2};
  other.connect(1);
  net.run_for(60s);
  EXPECT_GT(one.core().stats().registrations_failed, 2U);
  EXPECT_FALSE(other.is_connected(1));
  EXPECT_EQ(one.count(endpoint_event::disconnected), 0);
  EXPECT_EQ(two.count(endpoint_event::superseded), 0);
}

TEST_F(NodeAdmission, LetsALaterIncarnationInWhenTheFormerAnswersNoProbe) {
  party one{net, 1, plain().ping_interval(1h)};
  auto two = std::make_unique<party>(net, 2);
  connect(*two, one, 1);
  two->node.channels().fall_silent();
  two.reset();
  party later{net, 2};
  later.connect(1);
  ASSERT_TRUE(net.run_until([&] { return later.is_connected(1); }, 20s));
  EXPECT_EQ(one.core().endpoints().at(0).incarnation(), later.core().self().incarnation);
}

TEST_F(NodeAdmission, TellsAFormerIncarnationThatAnotherOneHasItsPlaceForGood) {
  party one{net, 1, plain().ping_interval(1h)};
  party two{net, 2};
  connect(two, one, 1);
  ASSERT_TRUE(two.send(1, "before"));
  net.run_for(1s);
  ASSERT_TRUE(two.send(1, "waits"));
  two.node.stop_until(net.now() + 30s);
  std::optional<party> later{std::in_place, net, 2};
  later->connect(1);
  ASSERT_TRUE(net.run_until([&] { return later->is_connected(1); }, 20s));
  later.reset();  // its place is not free for all that
  net.run_for(60s);
  EXPECT_EQ(one.got, (std::vector<std::string>{"before"}));
  ASSERT_EQ(two.reports.size(), 1U);
  EXPECT_EQ(two.reports[0].text, "waits");
  EXPECT_EQ(two.reports[0].outcome, errc::not_delivered);
  EXPECT_EQ(two.reports[0].reason, errc::superseded);
  EXPECT_EQ(two.count(endpoint_event::superseded), 1);
  EXPECT_EQ(two.logged("has its bus id"), 1);
  EXPECT_TRUE(two.core().endpoints().empty());
  EXPECT_EQ(two.send(1, "more"), errc::no_route);
}

TEST_F(NodeAdmission, TellsNothingOfAnUnprovenPeerInTheNameOfAConnectedPeer) {
  party one{net, 1, node_options{}.token(secret)};
  party two{net, 2, node_options{}.token(secret)};
  connect(two, one, 1);
  hand_played unproven{net, 2, 1, true};
  net.run_for(6s);
  EXPECT_GT(one.core().stats().registrations_failed, 0U);
  EXPECT_EQ(one.count(endpoint_event::refused), 0);
}

// The handshake of node 1 with node 2 takes 2.7 s. Meanwhile clients come and go.
TEST_F(NodeAdmission, GivesItsHandshakesAllTheirTimeWhateverClientsSay) {
  party one{net, 1};
  party two{net, 2};
  const auto set_delay = [&](std::chrono::nanoseconds delay) {
    net.conditions.delay_min = net.conditions.delay_max = delay;
  };
  set_delay(900ms);
  one.connect(2);
  net.run_for(2s);
  for (std::uint8_t i = 0; i != 10; ++i) {
    set_delay(1ms);
    {
      const hand_played client{net, 0, 1, true, true, [i](introduction& self) {
                                 self.incarnation = 0;
                                 self.nonce[1] = std::byte{i};
                               }};
      net.run_for(20ms);
      EXPECT_TRUE(client.has_ended());
    }
    set_delay(900ms);
    net.run_for(1500ms);
  }
  EXPECT_TRUE(one.is_connected(2));
}

TEST_F(NodeAdmission, TellsOnceThatAPeerIsRefusedWhateverStrangersSayInItsName) {
  party one{net, 1, node_options{}.token(secret)};
  one.connect(2);
  net.run_for(1s);
  for (int i = 0; i != 20; ++i) {
    hand_played stranger{net, 2, 1, false};
    net.run_for(20ms);
    introduction self;
    self.id = 2;
    self.incarnation = 77;
    self.nonce[0] = static_cast<std::byte>(i);
    self.message_limit = 1000;
    stranger.say(hello_body{.self = self, .expected = 1});
    if (i % 2 == 0)
      stranger.say(ping_body{.number = 1});
    else
      stranger.say(proof_body{.resume = {1, 0, true}});
    net.run_for(20ms);
  }
  EXPECT_GE(one.core().stats().registrations_failed, 20U);
  EXPECT_EQ(one.count(endpoint_event::refused), 1);
}

}  // namespace
}  // namespace atbus::detail
