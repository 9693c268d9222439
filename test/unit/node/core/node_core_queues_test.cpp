// What waits to leave a node: until when it is kept, and what a full queue does.
#include "node_core_fixture.h"

namespace atbus::detail {
namespace {

using NodeCoreQueues = NodeCore;

TEST_F(NodeCoreQueues, ReleasesWhatIsAcknowledged) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(one.send(2, "a message"));
  EXPECT_GT(one.node.channels().links().at(0)->queued(), 1600U);
  EXPECT_FALSE(one.core().settled());
  net.run_for(100ms);
  EXPECT_EQ(two.got.size(), 100U);
  EXPECT_LT(one.node.channels().links().at(0)->queued(), 200U);
  EXPECT_TRUE(one.core().settled());
}

// An answer carries an acknowledgement, but not each of many in quick turns.
TEST_F(NodeCoreQueues, AcknowledgesWithAnAnswerAndNotTooOften) {
  net.conditions.delay_min = net.conditions.delay_max = 5us;
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  two.on_message = [&](const message&) { EXPECT_TRUE(two.send(1, "an answer")); };
  const auto ask = [&](int times, std::chrono::nanoseconds between) {
    const std::uint64_t before = two.core().stats().acknowledgements;
    for (int i = 0; i != times; ++i) {
      const std::size_t answers = one.got.size();
      EXPECT_TRUE(one.send(2, "a question"));
      EXPECT_TRUE(net.run_until([&] { return one.got.size() != answers; }, 1s));
      net.run_for(between);
    }
    return two.core().stats().acknowledgements - before;
  };
  const auto began = net.now();
  const std::uint64_t quick = ask(1000, 0ns);
  EXPECT_LE(quick, static_cast<std::uint64_t>((net.now() - began) / 100us + 1));
  EXPECT_GT(quick, 20U);
  EXPECT_LT(quick, 500U);
  EXPECT_EQ(ask(100, 1ms), 100U);
}

// 20 ms after the last acknowledgement at the latest, but here at once.
TEST_F(NodeCoreQueues, AcknowledgesTheRestAtTheEndOfAPollThatWasAsked) {
  party one{net, 1, plain().send_buffer_size(64 * 1024)};
  party two{net, 2};
  connect(one, two, 2);
  for (int i = 0; i != 40; ++i)
    ASSERT_TRUE(one.send(2, std::string(1000, 'x')));
  ASSERT_TRUE(net.run_until([&] { return two.got.size() == 40; }, 1s));
  net.run_for(5ms);
  EXPECT_TRUE(one.core().settled());
}

TEST_F(NodeCoreQueues, LetsBothSendAllTheyCanWithFullQueues) {
  net.conditions.queue_size = 4000;
  net.conditions.kernel_holds = 1000;
  party one{net, 1, plain().send_buffer_size(4000)};
  party two{net, 2, plain().send_buffer_size(4000)};
  connect(one, two, 2);
  const std::string text(200, 'x');
  std::size_t most_queued = 0;
  const auto fill = [&](party& from, std::uint64_t to) {
    while (from.send(to, text)) {
    }
    most_queued = std::max(most_queued, from.node.channels().links().at(0)->queued());
  };
  for (int round = 0; round < 2000; ++round) {
    fill(one, 2);
    fill(two, 1);
    net.run_for(1ms);
  }
  EXPECT_GT(one.got.size(), 2000U);
  EXPECT_GT(two.got.size(), 2000U);
  EXPECT_GT(one.writable, 10);
  EXPECT_LE(most_queued, 4000U + 2000U);
}

TEST_F(NodeCoreQueues, ReportsWhatIsTooOldToBeSent) {
  party one{net, 1, plain().message_deadline(1s)};
  one.connect(2);
  ASSERT_TRUE(one.send(2, "late"));
  net.run_for(900ms);
  EXPECT_TRUE(one.reports.empty());
  net.run_for(200ms);
  ASSERT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(one.reports[0].text, "late");
  EXPECT_EQ(one.reports[0].outcome, errc::not_delivered);
  EXPECT_EQ(one.reports[0].reason, errc::timed_out);
  EXPECT_EQ(one.core().stats().deadline_drops, 1U);
}

TEST_F(NodeCoreQueues, DropsTheOldestOrTheNewestAsItWasTold) {
  party oldest{net, 1, plain().overflow(overflow_policy::drop_oldest).send_buffer_size(2000)};
  party newest{net, 2, plain().overflow(overflow_policy::drop_newest).send_buffer_size(2000)};
  for (party* const each : {&oldest, &newest}) {
    each->connect(3);
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(each->send(3, std::to_string(i)));
    net.run_for(1ms);
    ASSERT_GT(each->reports.size(), 50U);
    EXPECT_EQ(each->core().stats().overflow_drops, each->reports.size());
    for (const party::report& one : each->reports) {
      EXPECT_EQ(one.outcome, errc::not_delivered);
      EXPECT_EQ(one.reason, errc::would_block);
    }
  }
  EXPECT_EQ(oldest.reports.front().text, "0");
  EXPECT_EQ(newest.reports.back().text, "99");
  party three{net, 3};
  net.run_for(10s);
  EXPECT_EQ(three.got.size() + oldest.reports.size() + newest.reports.size(), 200U);
}

TEST_F(NodeCoreQueues, EachPeerMayHaveAPolicyOfItsOwn) {
  party one{net, 1, plain().send_buffer_size(2000)};
  EXPECT_TRUE(
      one.core().set_policy(3, {.overflow = overflow_policy::drop_oldest, .message_deadline = 1s}));
  one.connect(2);
  one.connect(3);
  EXPECT_TRUE(one.core().set_policy(4, {.overflow = overflow_policy::drop_newest}));
  one.connect(4);
  for (int i = 0; i < 100; ++i) {
    (void)one.send(2, "to two");
    ASSERT_TRUE(one.send(3, std::to_string(i)));
    ASSERT_TRUE(one.send(4, std::to_string(i)));
  }
  EXPECT_EQ(one.send(2, "to two"), errc::would_block);
  net.run_for(1ms);
  EXPECT_EQ(one.reports.front().text, "0");
  EXPECT_EQ(one.reports.back().text, "99");
  const auto dropped = one.core().stats().overflow_drops;
  net.run_for(2s);
  EXPECT_EQ(one.core().stats().overflow_drops, dropped);
  EXPECT_GT(one.core().stats().deadline_drops, 0U);
  EXPECT_EQ(one.reports.back().reason, errc::timed_out);
  EXPECT_EQ(one.core().stats().not_delivered, one.reports.size());
  // A peer that is there already gets it too.
  party two{net, 2};
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2); }, 10s));
  EXPECT_TRUE(one.core().set_policy(2, {.overflow = overflow_policy::disconnect}));
  two.node.stop_until(net.now() + 1s);
  status last;
  for (int i = 0; i < 100'000 && (last = one.send(2, std::string(1000, 'x'))); ++i) {
  }
  EXPECT_EQ(last, errc::not_connected);
  EXPECT_EQ(one.core().set_policy(1, {}), errc::invalid_argument);
  EXPECT_EQ(one.core().set_policy(0, {}), errc::invalid_argument);
  EXPECT_EQ(one.core().set_policy(2, {.message_deadline = -1s}), errc::invalid_argument);
}

TEST_F(NodeCoreQueues, BreaksTheLinkToWhoIsTooSlowIfItWasToldSo) {
  net.conditions.queue_size = 2000;
  party one{net, 1, plain().overflow(overflow_policy::disconnect)};
  party two{net, 2};
  connect(one, two, 2);
  const std::string text(300, 'x');
  status last;
  for (int i = 0; i < 10 && last; ++i)
    last = one.send(2, text);
  EXPECT_EQ(last, errc::not_connected);
  net.run_for(50ms);
  EXPECT_EQ(one.count(endpoint_event::disconnected), 1);
}

TEST_F(NodeCoreQueues, ClaimsWithoutAReasonWhatWaitsOutsideOfAFullLink) {
  net.conditions.queue_size = 2000;
  party one{net, 1, plain().message_deadline(1s)};
  party two{net, 2};
  connect(one, two, 2);
  for (int i = 0; i < 10; ++i) {
    status why;
    EXPECT_NE(one.core().claim(bus_id{2}, 0, 300, why), nullptr);
    EXPECT_EQ(why, errc::ok);
    one.core().commit(300);
  }
}

TEST_F(NodeCoreQueues, TellsOnceThatThereIsRoomAgain) {
  net.conditions.queue_size = 2000;
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  const std::string text(300, 'x');
  while (one.send(2, text)) {
  }
  EXPECT_EQ(one.send(2, text), errc::would_block);
  EXPECT_EQ(one.writable, 0);
  net.run_for(1s);
  EXPECT_EQ(one.writable, 1);
  EXPECT_TRUE(one.send(2, text));
}

TEST_F(NodeCoreQueues, TellsThatThereIsRoomForItselfAgain) {
  party one{net, 1};
  const std::string text(30'000, 'x');
  while (one.send(1, text)) {
  }
  EXPECT_EQ(one.send(1, text), errc::would_block);
  net.run_for(1s);
  EXPECT_EQ(one.writable, 1);
  EXPECT_TRUE(one.send(1, text));
}

TEST_F(NodeCoreQueues, WhatComesBackFromALostLinkHasADeadlineAgain) {
  party one{net, 1, plain().message_deadline(5s).ping_interval(1s)};
  auto two = std::make_unique<party>(net, 2);
  connect(one, *two, 2);
  two->node.channels().fall_silent();
  two.reset();
  ASSERT_TRUE(one.send(2, "on its way"));
  ASSERT_TRUE(net.run_until([&] { return !one.reports.empty(); }, 60s));
  EXPECT_EQ(one.reports[0].text, "on its way");
  EXPECT_EQ(one.reports[0].outcome, errc::outcome_unknown);
  EXPECT_EQ(one.reports[0].reason, errc::timed_out);
  EXPECT_EQ(one.core().stats().deadline_drops, 1U);
}

TEST_F(NodeCoreQueues, WhatComesBackWithATraceContextHasADeadlineAgain) {
  party one{net, 1, plain().message_deadline(5s).ping_interval(1s)};
  auto two = std::make_unique<party>(net, 2);
  connect(one, *two, 2);
  two->node.channels().fall_silent();
  two.reset();
  const trace_context trace{.trace_id = {std::byte{1}}, .parent_id = {std::byte{2}}};
  ASSERT_TRUE(one.node.user().send(2, 0, std::string_view{"on its way"}, trace));
  ASSERT_TRUE(one.node.user().request(2, 7, as_bytes("asked"), 5s, trace, [](const response&) {}));
  one.node.wake();
  ASSERT_TRUE(net.run_until([&] { return !one.reports.empty(); }, 60s));
  EXPECT_EQ(one.reports[0].text, "on its way");
  EXPECT_EQ(one.reports[0].reason, errc::timed_out);
  net.run_for(10s);
  EXPECT_TRUE(one.core().settled());  // nobody waits for the answer: the request is dropped, too
}

TEST_F(NodeCoreQueues, TellsThatThereIsRoomAgainOnceWhatWasHeldHasExpired) {
  party one{net, 1, plain().message_deadline(1s)};
  ASSERT_TRUE(one.core().connect(2, address_of(2)));  // nobody is there
  const std::string text(30'000, 'x');
  while (one.send(2, text)) {
  }
  EXPECT_EQ(one.send(2, text), errc::would_block);
  net.run_for(500ms);
  EXPECT_EQ(one.writable, 0);
  net.run_for(1s);
  EXPECT_EQ(one.writable, 1);
  EXPECT_TRUE(one.send(2, text));
}

// Else they fill the queue of who has nothing else to say.
TEST_F(NodeCoreQueues, AcknowledgesLongControlMessagesThatComeAlone) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  net.run_for(1s);
  const auto before = two.core().stats().acknowledgements;
  for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f'})
    ASSERT_TRUE(one.core().listen("unix:///" + std::string(90, letter)));
  one.node.wake();
  net.run_for(100ms);
  EXPECT_GT(two.core().stats().acknowledgements, before);
}

// A list that finds no room is told once there is some.
TEST_F(NodeCoreQueues, TellsWhereItListensOnceThereIsRoomForThat) {
  net.conditions.queue_size = 2000;
  party one{net, 1};
  hand_played two{net, 2, 1, true};
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2); }, 5s));
  const auto told = [&] { return two.heard(message_kind::addresses); };
  // It acknowledges nothing: the queue fills.
  int listens = 0;
  for (std::ptrdiff_t before = -1; before != told() && listens != 64; ++listens) {
    before = told();
    ASSERT_TRUE(one.core().listen("unix:///" + std::to_string(listens) + std::string(90, 'x')));
    one.node.wake();
    net.run_for(10ms);
  }
  ASSERT_LT(told(), listens);
  two.say(acknowledge_body{.handled = static_cast<std::uint64_t>(told())});
  const auto before = told();
  net.run_for(1s);
  EXPECT_EQ(told(), before + 1);
  addresses_body last;
  ASSERT_TRUE(decode(two.got.back(), last));
  EXPECT_EQ(last.addresses.size(), std::size_t(listens) + 1);
}

}  // namespace
}  // namespace atbus::detail
