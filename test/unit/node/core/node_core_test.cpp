// What a node promises, one thing at a time, over a simulated network.
#include "node_core_fixture.h"

namespace atbus::detail {
namespace {

byte_buffer raw(std::initializer_list<unsigned> bytes) {
  byte_buffer made;
  for (const unsigned one : bytes)
    made.push_back(static_cast<std::byte>(one));
  return made;
}

TEST_F(NodeCore, SleepsWhileItsMessagesCannotMoveToABetterLink) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  net.run_for(100ms);  // what was said at the opening is acknowledged
  EXPECT_TRUE(one.send(2, "not acknowledged"));
  net.cut(0, seen_by::none);
  one.connect(2);  // the dial of the one with the lower id wins
  ASSERT_TRUE(net.run_until([&] { return two.count(endpoint_event::moved) == 1; }, 5s));
  const std::uint64_t before = one.node.polls + two.node.polls;
  net.run_for(5s);
  EXPECT_LT(one.node.polls + two.node.polls - before, 100U);
}

// Both dial, and what is said at one moment of that takes long: it may be older than a link.
TEST(NodeCoreDials, AnOldAnswerEndsNoBetterLink) {
  for (std::chrono::nanoseconds moment = 20ms; moment < 80ms; moment += 500us) {
    simulated_network net{1};
    net.conditions.delay_min = net.conditions.delay_max = 10ms;
    party one{net, 1};
    party two{net, 2};
    two.connect(1);
    net.run_for(15ms);
    one.connect(2);
    net.run_for(moment - 15ms);
    net.conditions.delay_min = net.conditions.delay_max = 300ms;
    net.run_for(500us);
    net.conditions.delay_min = net.conditions.delay_max = 10ms;
    net.run_for(5s);
    ASSERT_TRUE(one.is_connected(2));
    EXPECT_EQ(one.logged("messages to 2 go through a caller"), 0) << moment / 1us;
  }
}

TEST_F(NodeCore, AHandshakeThatHangsRemembersNothingOldOfAFlow) {
  net.conditions.delay_min = net.conditions.delay_max = 10ms;
  party one{net, 1};
  party two{net, 2};
  one.connect(2);
  net.run_for(41500us);
  net.conditions.delay_min = net.conditions.delay_max = 1h;
  net.run_for(1ms);  // node 1 says how far it has come, and waits for the last word
  net.conditions.delay_min = net.conditions.delay_max = 100us;
  connect(two, one, 1);
  EXPECT_TRUE(two.send(1, "once"));
  ASSERT_TRUE(net.run_until([&] { return one.got.size() == 1; }, 10s));
  ASSERT_EQ(net.links(), 2U);
  net.cut(1, seen_by::both);
  ASSERT_TRUE(net.run_until([&] { return !one.is_connected(2); }, 10s));
  EXPECT_TRUE(one.core().disconnect(2));
  one.node.wake();
  ASSERT_TRUE(net.run_until([&] { return two.count(endpoint_event::connected) == 2; }, 10s));
  ASSERT_TRUE(net.run_until([&] { return two.core().settled(); }, 10s));
  EXPECT_EQ(one.got, std::vector<std::string>{"once"});
}

TEST_F(NodeCore, HoldsWhatIsSentWhileALinkIsAboutToEnd) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  EXPECT_TRUE(one.core().disconnect(2));
  EXPECT_TRUE(one.send(2, "for the next link"));
  ASSERT_TRUE(net.run_until([&] { return two.got.size() == 1; }, 10s));
  EXPECT_TRUE(one.reports.empty());
}

TEST_F(NodeCore, LeavesOneLinkOfTwoDialsTheLowerIds) {
  party one{net, 1};
  party two{net, 2};
  one.connect(2);
  two.connect(1);
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
  net.run_for(2s);
  EXPECT_EQ(net.links(), 1U);
  EXPECT_EQ(one.core().endpoints().at(0).address(), address_of(2));
}

TEST_F(NodeCore, WaitsTwiceAsLongBeforeEachDialUpToFourSeconds) {
  net.conditions.refuses = true;
  party one{net, 1};
  one.connect(2);
  auto last = net.now();
  std::chrono::nanoseconds longest = 100ms;
  for (std::uint64_t dials = 2; dials < 14; ++dials) {
    ASSERT_TRUE(net.run_until([&] { return one.core().stats().dials == dials; }, 6s));
    const auto waited = net.now() - last;
    EXPECT_GE(waited, longest / 2) << dials;
    EXPECT_LE(waited, longest + 5ms) << dials;  // and until it was refused
    last = net.now();
    longest = std::min<std::chrono::nanoseconds>(2 * longest, 4s);
  }
  EXPECT_EQ(one.logged("no connection"), 1);
}

TEST_F(NodeCore, GivesUpALinkThatAnswersNoPing) {
  party one{net, 1, plain().ping_interval(1s).fault_tolerance(3)};
  party two{net, 2, plain().ping_interval(1h)};
  connect(one, two, 2);
  net.run_for(60s);
  ASSERT_EQ(one.count(endpoint_event::disconnected), 0);
  EXPECT_GT(one.core().endpoints().at(0).round_trip(), 50us);
  net.cut(0, seen_by::none);
  net.run_for(2s);
  EXPECT_EQ(one.count(endpoint_event::disconnected), 0);
  net.run_for(3s);
  EXPECT_EQ(one.count(endpoint_event::disconnected), 1);
  EXPECT_EQ(one.logged("does not answer any more"), 1);
}

TEST_F(NodeCore, TellsWhoWaitsWhenAPeerIsThereOrTheTimeIsOver) {
  party one{net, 1};
  party two{net, 2};
  std::vector<errc> told;
  const auto note = [&](status how) { told.push_back(how.code()); };
  EXPECT_TRUE(one.core().on_ready(3, 100ms, note));
  one.node.wake();
  net.run_for(200ms);
  EXPECT_EQ(told, (std::vector{errc::timed_out}));
  EXPECT_TRUE(one.core().on_ready(2, 1s, note));
  connect(one, two, 2);
  EXPECT_EQ(told, (std::vector{errc::timed_out, errc::ok}));
  EXPECT_TRUE(one.core().on_ready(2, 1s, note));
  one.node.wake();
  net.run_for(10ms);
  EXPECT_EQ(told, (std::vector{errc::timed_out, errc::ok, errc::ok}));
  EXPECT_TRUE(one.core().on_ready(3, 1s, note));
  one.core().close();
  EXPECT_EQ(told.back(), errc::closed);
  EXPECT_EQ(told.size(), 4U);
}

TEST_F(NodeCore, WaitsLongerBeforeItDialsWhoEndsEachLinkAtOnce) {
  party one{net, 1};
  {
    party two{net, 2};
    two.on_message = [&](const message&) { EXPECT_TRUE(two.core().disconnect(1)); };
    one.connect(2);
    ASSERT_TRUE(one.send(2, "go away"));
    std::uint64_t registrations = 0;
    for (const auto until = net.now() + 20s; net.now() < until;) {
      net.run_for(1ms);
      if (std::exchange(registrations, one.core().stats().registrations) !=
          one.core().stats().registrations) {
        ASSERT_TRUE(one.send(2, "go away"));
      }
    }
    // 0.1 + 0.2 + 0.4 + .. + 4: about eight in that time.
    EXPECT_GT(one.core().stats().registrations, 4U);
    EXPECT_LT(one.core().stats().registrations, 16U);
  }
  party again{net, 2};
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2); }, 10s));
  net.run_for(10s);
  net.cut(0, seen_by::both);
  ASSERT_TRUE(net.run_until([&] { return !one.is_connected(2); }, 1s));
  EXPECT_TRUE(net.run_until([&] { return one.is_connected(2); }, 200ms));
}

TEST_F(NodeCore, TakesNothingMoreFromALinkThatTheFlowHasLeft) {
  party one{net, 1};
  hand_played first{net, 3, 1, true, false};
  ASSERT_TRUE(net.run_until([&] { return first.is_registered(); }, 5s));
  hand_played second{net, 3, 1, true, false};
  ASSERT_TRUE(net.run_until([&] { return second.is_registered(); }, 5s));
  const auto data = [](std::uint8_t text) { return raw({0, 0, 0, 0, 1, 0, 0, 0, text}); };
  first.say(flow_body{.next = 1, .before = 0});
  first.say_bytes(data('a'));
  net.run_for(50ms);
  second.say(flow_body{.next = 2, .before = 1});
  net.run_for(50ms);
  ASSERT_FALSE(first.has_ended() || second.has_ended());
  first.say_bytes(data('x'));
  net.run_for(1s);
  EXPECT_EQ(one.got, (std::vector<std::string>{"a"}));
  EXPECT_TRUE(first.has_ended());
}

// Also those that come in one poll with a good one, which is told without looking at session and flow.
TEST_F(NodeCore, LooksAtWhatComesBehindAGoodMessage) {
  net.conditions.delay_min = net.conditions.delay_max = 100us;
  byte_buffer too_long = raw({0, 0, 0, 0, 1, 0, 0, 0});
  too_long.resize(8 + 101);
  for (const byte_buffer& bad : {raw({0, 0, 0}), raw({0, 0x40, 0, 0, 1, 0, 0, 0, 'x'}),
                                 raw({0x7f, 0, 0, 0, 1, 0, 0, 0, 'x'}), too_long}) {
    party one{net, 1, plain().message_limit(100)};
    hand_played from{net, 3, 1, true};
    ASSERT_TRUE(net.run_until([&] { return from.is_registered(); }, 5s));
    from.say(flow_body{.next = 1, .before = 0});
    for (const char text : {'a', 'b'})
      from.say_bytes(raw({0, 0, 0, 0, 1, 0, 0, 0, static_cast<unsigned>(text)}));
    from.say_bytes(bad);
    from.say_bytes(raw({0, 0, 0, 0, 1, 0, 0, 0, 'c'}));
    net.run_for(1s);
    EXPECT_EQ(one.got, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(from.has_ended());
    EXPECT_EQ(one.core().stats().violations, 1U);
  }
}

TEST_F(NodeCore, LetsAHandlerSendDisconnectAndEndTheNode) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  two.on_message = [&](const message& what) {
    if (what.text() == "answer") {
      EXPECT_TRUE(two.send(1, "here"));
    }
    if (what.text() == "go") {
      EXPECT_TRUE(two.core().disconnect(1));
    }
    if (what.text() == "end")
      two.core().close();
  };
  ASSERT_TRUE(one.send(2, "answer"));
  net.run_for(100ms);
  EXPECT_EQ(one.got, (std::vector<std::string>{"here"}));
  ASSERT_TRUE(one.send(2, "go"));
  net.run_for(10s);
  EXPECT_EQ(one.count(endpoint_event::connected), 2);
  ASSERT_TRUE(one.send(2, "end"));
  ASSERT_TRUE(one.send(2, "lost"));
  net.run_for(100ms);
  EXPECT_EQ(two.got, (std::vector<std::string>{"answer", "go", "end"}));
  EXPECT_FALSE(one.is_connected(2));
}

TEST_F(NodeCore, MayBeEndedInEachHandler) {
  using handler = std::function<void(node_core&, const std::function<void()>&)>;
  const std::array<handler, 5> each{
      [](node_core& of, auto end) { of.handlers().on_message = [=](const message&) { end(); }; },
      [](node_core& of, auto end) {
        of.handlers().on_undelivered = [=](const undelivered&) { end(); };
      },
      [](node_core& of, auto end) {
        of.handlers().on_endpoint = [=](const endpoint&, endpoint_event) { end(); };
      },
      [](node_core& of, auto end) { of.handlers().on_log = [=](std::string_view) { end(); }; },
      [](node_core& of, auto end) { EXPECT_TRUE(of.on_ready(2, 10s, [=](status) { end(); })); }};
  for (std::size_t i = 0; i < each.size(); ++i) {
    party one{net, 1, plain().message_deadline(50ms)};
    party two{net, 2};
    int ends = 0;
    each[i](one.core(), [&] {
      ++ends;
      one.core().close();
    });
    one.connect(3);
    ASSERT_TRUE(one.send(3, "too late"));
    two.connect(1);
    if (i != 4)
      one.connect(2);
    ASSERT_TRUE(two.send(1, "first"));
    ASSERT_TRUE(two.send(1, "second"));
    net.run_for(1s);
    EXPECT_EQ(ends, 1) << i;
    EXPECT_TRUE(one.core().is_closed()) << i;
  }
}

TEST_F(NodeCore, NumbersAFlowOnThatItHadForgotten) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  ASSERT_TRUE(one.send(2, "first"));
  net.run_for(100ms);
  net.cut(0, seen_by::both);
  ASSERT_TRUE(net.run_until([&] { return two.count(endpoint_event::connected) == 2; }, 10s));
  net.run_for(10ms);
  ASSERT_TRUE(one.send(2, "second"));
  net.run_for(100ms);
  EXPECT_EQ(two.got, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(one.core().stats().violations, 0U);
}

// What no node says, and where; each ends the link it came through, and nothing else.
struct breach {
  const char* name;
  bool registered;
  std::function<void(hand_played&)> say;
  const char* logged;
};

class NodeCoreBreach : public NodeCore, public ::testing::WithParamInterface<breach> {};

TEST_P(NodeCoreBreach, EndsThatLinkAlone) {
  party one{net, 1};
  party two{net, 2};
  connect(two, one, 1);
  hand_played bad{net, 3, 1, GetParam().registered};
  ASSERT_TRUE(net.run_until(
      [&] { return GetParam().registered ? bad.is_registered() : bad.is_open(); }, 5s));
  net.run_for(5ms);
  ASSERT_FALSE(bad.has_ended());
  GetParam().say(bad);
  net.run_for(3s);
  EXPECT_TRUE(bad.has_ended());
  EXPECT_EQ(one.logged(GetParam().logged), 1);
  EXPECT_TRUE(one.got.empty());
  EXPECT_EQ(two.count(endpoint_event::disconnected), 0);
  ASSERT_TRUE(two.send(1, "still here"));
  net.run_for(100ms);
  EXPECT_EQ(one.got.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Each, NodeCoreBreach,
    ::testing::Values(breach{"DataBeforeRegistration", false,
                             [](hand_played& at) {
                               at.say_bytes(raw({0, 0, 0, 0, 1, 0, 0, 0, 9}));
                             },
                             "before registration"},
                      breach{"DataBeforeItsNumber", true,
                             [](hand_played& at) {
                               at.say_bytes(raw({0, 0, 0, 0, 1, 0, 0, 0, 9}));
                             },
                             "before its number"},
                      breach{"ShortHead", true,
                             [](hand_played& at) {
                               at.say_bytes(raw({0, 0, 0}));
                             },
                             "8-byte head"},
                      breach{"UnknownFlags", true,
                             [](hand_played& at) {
                               at.say_bytes(raw({7, 0x20, 0, 0, 0, 0, 0, 0}));
                             },
                             "flags"},
                      breach{"UnknownKind", true,
                             [](hand_played& at) {
                               at.say_bytes(raw({0x7f, 0, 0, 0, 0, 0, 0, 0}));
                             },
                             "of a kind"},
                      breach{"BodyThatIsNone", true,
                             [](hand_played& at) {
                               at.say_bytes(raw({7, 0, 0, 0, 0, 0, 0, 0, 0xc1}));
                             },
                             "is closed"},
                      breach{"AcknowledgesWhatWasNotSent", true,
                             [](hand_played& at) { at.say(acknowledge_body{.handled = 1000}); },
                             "acknowledges"},
                      breach{"AcknowledgesLessThanBefore", true,
                             [](hand_played& at) {
                               at.say(acknowledge_body{.handled = 1});
                               at.say(acknowledge_body{.handled = 0});
                             },
                             "acknowledges"},
                      breach{"GoesBack", true,
                             [](hand_played& at) {
                               at.say(flow_body{.next = 5});
                               at.say(flow_body{.next = 4});
                             },
                             "goes back"},
                      breach{"HandshakeAfterTheHandshake", true,
                             [](hand_played& at) { at.say(hello_body{}); },
                             "handshake came after it"}),
    [](const auto& of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace atbus::detail
