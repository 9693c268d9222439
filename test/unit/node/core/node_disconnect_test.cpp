// What a disconnect leaves of the messages to a peer that is connected, over a simulated network.
#include "atbus/testing.hpp"
#include "node_core_fixture.h"
#include "unit/node/route/tree_of_six.h"

namespace atbus::detail {
namespace {

using NodeDisconnect = NodeCore;

TEST_F(NodeDisconnect, SettlesWhatIsOnItsWayWithinTheGoodbyeSecond) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  two.node.stop_until(net.now() + 10s);
  for (int i = 0; i != 10; ++i)
    ASSERT_TRUE(one.send(2, "on its way"));
  net.run_for(10ms);
  ASSERT_TRUE(one.core().disconnect(2));
  one.node.wake();
  net.run_for(1100ms);
  ASSERT_EQ(one.reports.size(), 10U);
  for (const party::report& each : one.reports) {
    EXPECT_EQ(each.outcome, errc::outcome_unknown);
    EXPECT_EQ(each.reason, errc::closed);
  }
  net.run_for(60s);
  EXPECT_EQ(one.reports.size(), 10U);
  EXPECT_TRUE(one.core().settled());
}

TEST_F(NodeDisconnect, ReportsWhatIsHeldWithTheNextPoll) {
  net.conditions.queue_size = 2000;
  net.conditions.kernel_holds = 1;
  party one{net, 1, plain().message_deadline(1h)};
  party two{net, 2};
  connect(one, two, 2);
  two.node.stop_until(net.now() + 10s);
  for (int i = 0; i != 100; ++i)
    ASSERT_TRUE(one.send(2, std::string(300, 'x')));
  ASSERT_TRUE(one.core().disconnect(2));
  one.node.user().poll();
  EXPECT_GE(one.reports.size(), 90U);
  for (const party::report& each : one.reports) {
    EXPECT_EQ(each.outcome, errc::not_delivered);
    EXPECT_EQ(each.reason, errc::closed);
  }
}

// It registers anew while the link that was given up still says goodbye.
TEST_F(NodeDisconnect, APeerThatComesBackGetsNothingOfWhatWasReported) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    simulated_network other{seed};
    other.conditions.queue_size = 50'000;
    other.conditions.kernel_holds = 10'000;
    party one{other, 1, plain().message_deadline(1h)};
    party two{other, 2, plain().retry(1ms, 5ms)};
    two.connect(1);
    ASSERT_TRUE(other.run_until([&] { return one.is_connected(2); }, 5s));
    for (int i = 0; i != 300; ++i)
      ASSERT_TRUE(one.send(2, std::to_string(i) + std::string(1000, 'x')));
    ASSERT_TRUE(one.core().disconnect(2));
    other.run_for(40s);
    ASSERT_EQ(one.count(endpoint_event::connected), 2) << "seed " << seed;
    std::size_t proven = 0;
    for (const party::report& each : one.reports) {
      EXPECT_EQ(each.reason, errc::closed) << "seed " << seed;
      if (each.outcome != errc::not_delivered)
        continue;
      ++proven;
      EXPECT_EQ(std::count(two.got.begin(), two.got.end(), each.text), 0) << "seed " << seed;
    }
    EXPECT_GT(proven, 0U) << "seed " << seed;
    EXPECT_GE(two.got.size() + one.reports.size(), 300U) << "seed " << seed;
  }
}

using TreeDisconnect = tree_of_six;

TEST_F(TreeDisconnect, NothingOfItTakesAnotherWay) {
  ASSERT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  ASSERT_TRUE(one->core().connect(97, address_of(97)));  // and directly
  ASSERT_TRUE(until([&] { return one->count(endpoint_event::moved) == 1; }));
  far->node.stop_until(net.now() + 500ms);
  for (int i = 0; i != 100; ++i)
    ASSERT_TRUE(one->send(97, std::to_string(i) + std::string(5000, 'x')));
  net.cut(81, 97, seen_by::none);
  ASSERT_TRUE(one->core().disconnect(97));
  net.run_for(60s);
  ASSERT_GE(one->reports.size() + far->got.size(), 101U);
  for (const party::report& each : one->reports) {
    EXPECT_EQ(each.reason, errc::closed);
    if (each.outcome == errc::not_delivered) {
      EXPECT_EQ(std::count(far->got.begin(), far->got.end(), each.text), 0);
    }
  }
}

// In a named segment, whose messages wait for the receiver's next incarnation.
TEST(NodeDisconnectAway, TakesAnOpenSlotAway) {
  testing::simulation sim{1};
  sim.start(2, [](node& of) { EXPECT_TRUE(of.listen("shm://two")); });
  sim.start(1, [](node& of) { EXPECT_TRUE(of.connect(2, "shm://two")); });
  ASSERT_TRUE(sim.run_until([&] {
    const auto all = sim.node(1).endpoints();
    return !all.empty() && all[0].connected();
  }));
  sim.kill(2);
  sim.run_for(1s);
  node_slot slot = sim.node(1).claim(2, 0, 5);
  ASSERT_TRUE(slot);
  EXPECT_TRUE(sim.node(1).disconnect(2));
  slot.commit();
  EXPECT_EQ(sim.node(1).stats().accepted, 0U);
}

// It is sent over the link that comes next, and is neither lost with the old one nor reported with it.
TEST_F(NodeDisconnect, InAHandlerIsOverForWhatTheHandlerSendsNext) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  two.on_message = [&](const message& m) {
    if (m.text() != "go")
      return;
    EXPECT_TRUE(two.core().disconnect(1));
    for (int i = 0; i != 3; ++i)
      EXPECT_TRUE(two.send(1, "after"));
  };
  EXPECT_TRUE(one.send(2, "go"));
  net.run_for(5s);
  EXPECT_TRUE(two.reports.empty());
  EXPECT_EQ(one.got, (std::vector<std::string>{"after", "after", "after"}));
}

// What acknowledges while a handler runs, and whether the process ends behind it. Of the message in hand its
// sender must know nothing then, so that it sends it to the next process.
class NodeInHandler : public NodeCore {
 protected:
  // The highest number that the sender of m1, m2 and m3 is told, beyond those of the handshake and of its flow,
  // if `two` does that in the handler of m2.
  std::uint64_t acknowledged_after(const std::function<void(node_core&)>& act) {
    party two{net, 2};
    hand_played sender{net, 1, 2, true};
    EXPECT_TRUE(net.run_until([&] { return sender.is_registered(); }, 5s));
    two.on_message = [&](const message& m) {
      if (m.text() == "m2")
        act(two.core());
    };
    sender.say(flow_body{.next = 1});
    for (const std::string_view text : {"m1", "m2", "m3"}) {
      byte_buffer made(message_head_size);
      encode(message_head{}, made.data());
      made.insert(made.end(), as_bytes(text).begin(), as_bytes(text).end());
      sender.say_bytes(made);
    }
    try {
      net.run_for(1s);
    } catch (int) {  // of the handler, out of poll
    }
    net.run_for(1s);
    constexpr std::uint64_t before = 3;  // hello, proof, flow
    std::uint64_t highest = before;
    for (const byte_buffer& one : sender.got) {
      if (acknowledge_body body; decode(one, body))
        highest = std::max(highest, body.handled);
    }
    said_bye = sender.heard(message_kind::bye) != 0;
    has_ended = sender.has_ended();
    return highest - before;
  }
  static void send_and_flush(node_core& core) {
    status why;
    ASSERT_NE(core.claim(1, 0, 8, why), nullptr) << why.text();
    core.commit(8);
    core.flush();
  }

  bool said_bye = false;
  bool has_ended = false;
};

TEST_F(NodeInHandler, AFlushAcknowledgesWhatWasHandledBefore) {
  EXPECT_EQ(acknowledged_after([](node_core& core) {
              send_and_flush(core);
              core.close();
            }),
            1U);
}

TEST_F(NodeInHandler, AFlushLeavesTheRestForLater) {
  EXPECT_EQ(acknowledged_after(send_and_flush), 3U);
}

TEST_F(NodeInHandler, ADisconnectIsSaidBehindIt) {
  EXPECT_EQ(acknowledged_after([](node_core& core) { EXPECT_TRUE(core.disconnect(1)); }), 2U);
  EXPECT_TRUE(said_bye);
  EXPECT_TRUE(has_ended);
}

TEST_F(NodeInHandler, ADisconnectSaysNothingIfItEndsThere) {
  EXPECT_EQ(acknowledged_after([](node_core& core) {
              EXPECT_TRUE(core.disconnect(1));
              core.flush();
              core.close();
            }),
            0U);
  EXPECT_FALSE(said_bye);
}

TEST_F(NodeInHandler, ADisconnectIsSaidThoughItThrows) {
  EXPECT_EQ(acknowledged_after([](node_core& core) {
              EXPECT_TRUE(core.disconnect(1));
              throw 1;
            }),
            2U);
  EXPECT_TRUE(said_bye);
}

}  // namespace
}  // namespace atbus::detail
