// Messages between nodes of a tree that are not linked to each other.
#include <deque>

#include "routed_message.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class Routing : public tree_of_six {};

TEST_F(Routing, AMessageGoesUpAndDownTheTreeAndItsAnswerBack) {
  far->on_message = [&](const message& what) {
    EXPECT_EQ(what.source(), bus_id{81});
    EXPECT_EQ(what.destination(), bus_id{97});
    (void)far->send(what.source().value(), "back");
  };
  EXPECT_TRUE(one->send(97, "there"));
  ASSERT_TRUE(until([&] { return one->got.size() == 1; }));
  EXPECT_EQ(far->got, std::vector<std::string>{"there"});
  EXPECT_EQ(one->got, std::vector<std::string>{"back"});
  for (auto* by : {&relay_a, &root, &relay_b})
    EXPECT_GT(relayed(*by), 0U);
  EXPECT_EQ(relayed(two), 0U);
  EXPECT_TRUE(one->is_connected(97));
}

TEST_F(Routing, NeighboursOfOneParentDoNotTroubleItsParent) {
  EXPECT_TRUE(one->send(82, "next door"));
  ASSERT_TRUE(until([&] { return two->got.size() == 1; }));
  EXPECT_EQ(relayed(root), 0U);
}

TEST_F(Routing, ANodeSendsToOneFarBelowIt) {
  EXPECT_TRUE(root->send(97, "down"));
  EXPECT_TRUE(one->send(64, "up"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1 && root->got.size() == 1; }));
}

TEST_F(Routing, ManyMessagesKeepTheirOrder) {
  int sent = 0;
  ASSERT_TRUE(until([&] {
    for (; sent != 5000 && one->send(97, std::to_string(sent)); ++sent) {
    }
    return far->got.size() == 5000;
  }));
  EXPECT_EQ(far->got, numbers(0, 5000));
}

TEST_F(Routing, WhoIsNowhereIsReportedAsNotDelivered) {
  EXPECT_TRUE(one->send(99, "to nobody"));
  ASSERT_TRUE(until([&] { return !one->reports.empty(); }));
  EXPECT_EQ(one->reports[0].text, "to nobody");
  EXPECT_EQ(one->reports[0].outcome, errc::not_delivered);
  EXPECT_EQ(one->reports[0].reason, errc::no_route);
  net.run_for(1s);
  const auto known = one->core().endpoints();
  EXPECT_TRUE(std::none_of(known.begin(), known.end(),
                           [](const endpoint& of) { return of.id() == bus_id{99}; }));
}

TEST_F(Routing, WhoIsNowhereBelowIsRefusedAtOnce) {
  EXPECT_EQ(relay_a->send(83, "to nobody"), errc::no_route);
  EXPECT_EQ(root->send(1000, "to nobody"), errc::no_route);
}

TEST_F(Routing, WhatIsRequiredWaitsForWhoIsNotThereYet) {
  EXPECT_TRUE(one->node.user().send(98, 0, std::string_view{"kept"}, delivery_policy::require));
  EXPECT_TRUE(relay_b->node.user().send(98, 0, std::string_view{"too"}, delivery_policy::require));
  one->node.wake();
  net.run_for(20s);
  EXPECT_TRUE(one->reports.empty());
  party late{net, 98, leaf_options(96)};
  ASSERT_TRUE(until([&] { return late.got.size() == 2; }));
  EXPECT_TRUE(one->reports.empty());
}

TEST_F(Routing, WhatIsNotRequiredDoesNotWaitForEverBesideWhatIs) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(1s);
  far.reset();
  EXPECT_TRUE(one->node.user().send(97, 0, std::string_view{"kept"}, delivery_policy::require));
  one->node.wake();
  net.run_for(2min);
  EXPECT_TRUE(one->reports.empty());
  EXPECT_TRUE(one->send(97, "given up"));
  net.run_for(2min);
  ASSERT_EQ(one->reports.size(), 1U);
  EXPECT_EQ(one->reports[0].text, "given up");
  far.emplace(net, 97, leaf_options(96));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_EQ(far->got[0], "kept");
}

// A restart in the middle of a handshake ends it, and the next incarnation may refuse the rest of it.
TEST_F(Routing, WhoEndsHandshakesIsGivenUpWhenItHasRefusedThree) {
  hand_played child{net, 83, 80, true, true, [](introduction& self) { self.as = relation::child; }};
  ASSERT_TRUE(until([&] { return child.is_registered(); }));
  net.run_for(5ms);
  std::uint64_t answered = 0;  // the circuit
  const auto answer = [&](circuit_step step) {
    routed_head call;
    ASSERT_TRUE(until([&] {
      return std::any_of(child.got.begin(), child.got.end(), [&](const byte_buffer& message) {
        return decode(message, call) && call.step == circuit_step::carry &&
               call.circuit != answered;
      });
    }));
    child.got.clear();
    answered = call.circuit;
    const routed_head head{
        .step = step, .destination = 81, .source = 83, .circuit = answered, .number = 1};
    byte_buffer refusal;
    encode(refuse_body{.reason = errc::denied, .text = "no"}, refusal);
    child.say_bytes(step == circuit_step::carry ? routed_message(head, {refusal})
                                                : routed_message(head, {}));
    net.run_for(10ms);
  };
  EXPECT_TRUE(one->send(83, "in vain"));
  for (int i = 0; i != 3; ++i)
    answer(circuit_step::ended);
  for (int i = 0; i != 3; ++i) {
    EXPECT_TRUE(one->reports.empty()) << i;
    answer(circuit_step::carry);
  }
  ASSERT_EQ(one->reports.size(), 1U);
  EXPECT_EQ(one->reports[0].reason, errc::denied);
}

TEST_F(Routing, WhoSpeaksInTheNameOfAnotherLosesItsLink) {
  hand_played forger{net, 83, 80, true};
  ASSERT_TRUE(until([&] { return forger.is_registered(); }));
  net.run_for(10ms);
  const byte_buffer message(message_head_size);
  forger.say_bytes(
      routed_message({.destination = 82, .source = 81, .circuit = 5, .number = 1}, {message}));
  ASSERT_TRUE(until([&] { return forger.has_ended(); }));
  EXPECT_EQ(relay_a->core().stats().violations, 1U);
  EXPECT_EQ(relay_a->logged("in the name of 81"), 1);
  EXPECT_TRUE(one->send(82, "undisturbed"));
  ASSERT_TRUE(until([&] { return two->got.size() == 1; }));
}

TEST_F(Routing, AMessageEndsWithItsHops) {
  hand_played child{net, 83, 80, true, true, [](introduction& self) { self.as = relation::child; }};
  ASSERT_TRUE(until([&] { return child.is_registered(); }));
  net.run_for(5ms);
  const auto say = [&](std::uint8_t hops_left, std::uint64_t circuit) {
    const byte_buffer message(message_head_size);
    child.say_bytes(routed_message(
        {.hops_left = hops_left, .destination = 82, .source = 83, .circuit = circuit, .number = 1},
        {message}));
    net.run_for(1s);
  };
  const std::uint64_t before = relayed(relay_a);
  say(0, 10);
  say(1, 11);
  EXPECT_EQ(relayed(relay_a), before);
  EXPECT_EQ(relay_a->core().stats().relay_drops, 2U);
  std::vector<errc> reasons;
  for (const byte_buffer& message : child.got) {
    routed_head head;
    if (decode(message, head) && head.step == circuit_step::failed)
      reasons.push_back(head.reason);
  }
  EXPECT_EQ(reasons, (std::vector{errc::hop_limit, errc::hop_limit}));
  say(2, 12);
  EXPECT_EQ(relayed(relay_a), before + 2) << "and what 82 answers";
  EXPECT_EQ(relay_a->core().stats().relay_drops, 2U);
  EXPECT_FALSE(child.has_ended());
}

TEST_F(Routing, AFailureIsToldOnceInAWhileButThatOfWhatIsSentAgainSooner) {
  hand_played child{net, 83, 80, true, true, [](introduction& self) { self.as = relation::child; }};
  ASSERT_TRUE(until([&] { return child.is_registered(); }));
  net.run_for(5ms);
  const auto failures_of = [&](std::uint64_t number) {
    child.got.clear();
    const byte_buffer message(message_head_size);
    child.say_bytes(routed_message(
        {.hops_left = 1, .destination = 82, .source = 83, .circuit = 10, .number = number},
        {message}));
    net.run_for(2ms);
    return std::ranges::count_if(child.got, [](const byte_buffer& told) {
      routed_head head;
      return decode(told, head) && head.step == circuit_step::failed;
    });
  };
  EXPECT_EQ(failures_of(5), 1);
  EXPECT_EQ(failures_of(6), 0);
  EXPECT_EQ(failures_of(5), 1) << "sent again";
  net.run_for(10ms);
  EXPECT_EQ(failures_of(6), 1);
}

TEST_F(Routing, WhatIsRequiredEndsWithItsDeadline) {
  party patient{net, 83, leaf_options(80).message_deadline(5s)};
  ASSERT_TRUE(until([&] { return patient.core().parent() == 80; }));
  EXPECT_TRUE(patient.node.user().send(98, 0, std::string_view{"kept"}, delivery_policy::require));
  patient.node.wake();
  ASSERT_TRUE(until([&] { return !patient.reports.empty(); }));
  EXPECT_EQ(patient.reports[0].reason, errc::timed_out);
}

TEST_F(Routing, AMessageOverTheLimitOfANodeOnTheWayPassesInFragments) {
  relay_a.reset();
  relay_a.emplace(net, 80, relay_options("80/60").message_limit(1000));
  ASSERT_TRUE(until([&] { return one->core().parent() == 80 && two->core().parent() == 80; }));
  const std::string text(60'000, 'l');
  for (const char* before : {"first", "second"}) {
    EXPECT_TRUE(one->send(97, before));
    EXPECT_TRUE(one->send(97, text));
    EXPECT_TRUE(one->send(97, "behind"));
    ASSERT_TRUE(until([&] { return far->got.size() == 3; }));
    EXPECT_EQ(far->got, (std::vector<std::string>{before, text, "behind"}));
    far->got.clear();
  }
  EXPECT_TRUE(one->reports.empty());
  EXPECT_EQ(relay_a->core().stats().violations, 0U);
}

TEST_F(Routing, NobodysAnswerIsNoDeadlineOfAMessage) {
  far->node.stop_until(net.now() + 1h);
  EXPECT_TRUE(one->send(97, "are you there"));
  ASSERT_TRUE(until([&] { return !one->reports.empty(); }));
  EXPECT_EQ(one->reports[0].reason, errc::timed_out);
  EXPECT_EQ(one->core().stats().deadline_drops, 0U);
}

TEST_F(Routing, WhatIsSentWhileTheParentIsAwayWaitsForIt) {
  relay_a.reset();
  ASSERT_TRUE(until([&] { return one->core().parent() == 0; }));
  EXPECT_TRUE(one->send(97, "later"));
  net.run_for(1s);
  relay_a.emplace(net, 80, relay_options("80/60"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
}

TEST_F(Routing, TheRootRestartsInMidTraffic) {
  int sent = 0;
  const auto go_on = [&](int last) {
    for (; sent != last && one->send(97, std::to_string(sent)); ++sent) {
    }
  };
  go_on(100);
  ASSERT_TRUE(until([&] { return far->got.size() > 10; }));
  root.reset();
  go_on(200);
  net.run_for(2s);
  root.emplace(net, 64, plain().children("64/58"));
  ASSERT_TRUE(until([&] {
    go_on(300);
    return far->got.size() + one->reports.size() >= 300;
  }));
  net.run_for(5s);
  EXPECT_EQ(far->got.size() + one->reports.size(), 300U);
  EXPECT_TRUE(std::is_sorted(far->got.begin(), far->got.end(), [](const auto& a, const auto& b) {
    return std::stoi(a) < std::stoi(b);
  }));
  EXPECT_GT(far->got.size(), 200U);
}

TEST_F(Routing, OrderIsKeptWhenADirectLinkComesUp) {
  int sent = 0;
  bool dialled = false;
  ASSERT_TRUE(until([&] {
    if (far->got.size() > 100 && !std::exchange(dialled, true))
      one->connect(97);
    // Few are under way, so that there is a moment to move.
    for (; sent != 5000 && sent < static_cast<int>(far->got.size()) + 200; ++sent)
      EXPECT_TRUE(one->send(97, std::to_string(sent)));
    return far->got.size() == 5000U && one->count(endpoint_event::moved) == 1;
  }));
  EXPECT_EQ(far->got, numbers(0, 5000));
  EXPECT_GT(relayed(relay_a), 10U);
  const std::uint64_t before = relayed(relay_a);
  EXPECT_TRUE(one->send(97, "direct"));
  ASSERT_TRUE(until([&] { return far->got.back() == "direct"; }));
  net.run_for(1s);
  EXPECT_LE(relayed(relay_a), before + 10);
}

TEST_F(Routing, ABrokenDirectLinkIsReplacedByTheTree) {
  one->connect(97);
  ASSERT_TRUE(until([&] { return one->is_connected(97); }));
  net.separate(81, 97);
  ASSERT_TRUE(net.run_until([&] { return one->count(endpoint_event::disconnected) == 1; }, 120s));
  net.run_for(15s);
  EXPECT_TRUE(one->send(97, "around"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
}

TEST_F(Routing, TheDestinationRestartsAndGetsWhatIsSentThen) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(1s);  // acknowledged
  far.emplace(net, 97, leaf_options(96));
  ASSERT_TRUE(until([&] { return far->core().parent() == 96; }));
  EXPECT_TRUE(one->send(97, "second"));
  ASSERT_TRUE(until([&] { return !far->got.empty() || !one->reports.empty(); }));
  EXPECT_EQ(far->got, std::vector<std::string>{"second"});
}

TEST_F(Routing, AWayThatIsNotUsedIsGivenUpAndFoundAgain) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(4min);
  EXPECT_TRUE(far->send(81, "in between"));
  net.run_for(4min);
  EXPECT_TRUE(one->is_connected(97));
  net.run_for(2min);
  EXPECT_FALSE(one->is_connected(97));
  EXPECT_FALSE(far->is_connected(81));
  EXPECT_TRUE(far->send(81, "again"));
  ASSERT_TRUE(until([&] { return one->got.size() == 2; }));
}

TEST_F(Routing, WhatIsNotRequiredDoesNotWaitBehindWhatIs) {
  EXPECT_EQ(relay_a->send(83, "to nobody"), errc::no_route);
  EXPECT_TRUE(relay_a->node.user().send(83, 0, "required", delivery_policy::require));
  EXPECT_EQ(relay_a->send(83, "to nobody"), errc::no_route);
  party late{net, 83, leaf_options(80)};
  ASSERT_TRUE(until([&] { return late.got.size() == 1; }));
  EXPECT_TRUE(relay_a->send(83, "to somebody"));
  EXPECT_TRUE(until([&] { return late.got.size() == 2; }));
}

TEST_F(Routing, WhoWasHeardOverOtherNodesIsNotAskedWhetherItIsThere) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(10s);
  const std::uint64_t relayed_before = relayed(relay_a);
  const std::uint64_t told_before = relay_a->core().stats().acknowledgements;
  net.run_for(240s);
  EXPECT_TRUE(one->is_connected(97));
  // 30 intervals. One that is asked answers, and each says that it has the other's message.
  const std::uint64_t asked = (relayed(relay_a) - relayed_before) / 4;
  EXPECT_GE(asked, 10U);
  EXPECT_LE(asked, 30U);
  // With a pong goes an acknowledgement, and with what follows it. None goes alone, but for each 32 of
  // the pings and pongs of a link: 60 in this time.
  const std::size_t links = relay_a->core().endpoints().size();
  EXPECT_LE(relay_a->core().stats().acknowledgements - told_before, 2 * asked + 2 * links);
}

TEST_F(Routing, WhoIsSilentOverOtherNodesIsAskedBeforeItIsGivenUp) {
  party hasty{net, 83, leaf_options(80).ping_interval(1s).fault_tolerance(1)};
  ASSERT_TRUE(until([&] { return hasty.core().parent() == 80; }));
  EXPECT_TRUE(hasty.send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(60s);
  EXPECT_EQ(hasty.count(endpoint_event::disconnected), 0);
  far->node.stop_until(net.now() + 1h);
  net.run_for(5s);
  EXPECT_EQ(hasty.count(endpoint_event::disconnected), 1);
}

TEST_F(Routing, TheRoundTripOverOtherNodesIsMeasuredBesideTraffic) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  net.run_for(20s);
  const auto trip = [](std::optional<party>& from, std::uint64_t to) {
    const auto all = from->core().endpoints();
    const auto found = std::ranges::find(all, bus_id{to}, &endpoint::id);
    return found != all.end() ? found->round_trip() : 0ns;
  };
  EXPECT_GT(trip(one, 97), 0ns);
  EXPECT_LT(trip(one, 97), 20ms);
  net.conditions.delay_min = net.conditions.delay_max = 100ms;
  for (int i = 0; i != 120; ++i) {
    (void)one->send(97, "more");
    (void)far->send(81, "more");
    net.run_for(1s);
  }
  EXPECT_GT(trip(one, 97), 50ms);
  EXPECT_GT(trip(far, 81), 50ms);
}

TEST_F(Routing, WhoLeavesSaysGoodbyeOverOtherNodes) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_TRUE(far->is_connected(81));
  EXPECT_TRUE(one->node.user().shutdown(5s));
  net.run_for(1s);
  EXPECT_FALSE(far->is_connected(81));
}

// A relay that stops holds up what was sent over it. A link that was being opened is used meanwhile.
TEST_F(Routing, WhatComesLateOverARelayDoesNotTakeBackAFlowThatHasMovedOn) {
  const auto travel_in = [this](std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
    net.conditions.delay_min = least;
    net.conditions.delay_max = most;
  };
  travel_in(1s, 1s);
  net.separate(80, 96);
  far->connect(81);
  net.run_for(2500ms);
  travel_in(50us, 100us);
  EXPECT_TRUE(one->send(97, "a"));
  ASSERT_TRUE(until([&] { return one->is_connected(97); }));
  const std::chrono::nanoseconds resumes = net.now() + 700ms;
  relay_b->node.stop_until(resumes);
  ASSERT_TRUE(one->core().disconnect(97));
  one->node.wake();
  const std::uint64_t registered = far->core().stats().registrations;
  ASSERT_TRUE(until([&] { return far->core().stats().registrations != registered; }));
  ASSERT_LT(net.now(), resumes) << "the relay still stands";
  travel_in(2s, 2s);  // the answer that there is no such circuit
  net.run_until(resumes - 1ms);
  travel_in(50us, 100us);
  net.run_for(50ms);
  EXPECT_TRUE(one->send(97, "b"));
  net.run_for(100ms);
  EXPECT_TRUE(one->send(97, "c"));
  ASSERT_TRUE(until([&] { return !far->got.empty() && far->got.back() == "c"; }));
  EXPECT_EQ(far->core().stats().violations, 0U);
}

TEST_F(Routing, AConnectedPeerThatIsReachedOverOthersStaysConnectedWhileNothingIsSent) {
  net.separate(81, 97);
  one->connect(97);
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return one->is_connected(97); }));
  net.run_for(std::chrono::minutes{20});
  EXPECT_EQ(one->count(endpoint_event::disconnected), 0);
}

TEST_F(Routing, WhoNeverCameIsForgottenAfterASlotForItWasNotCommitted) {
  status why;
  ASSERT_NE(one->core().claim_required(bus_id{99}, 0, 5, why), nullptr);
  net.run_for(31s);
  const auto all = one->core().endpoints();
  EXPECT_TRUE(std::ranges::none_of(all, [](const endpoint& of) { return of.id() == bus_id{99}; }));
}

}  // namespace
}  // namespace atbus::detail
