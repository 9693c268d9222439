// Who answers where a node was dialled and has no token: its welcome changes nothing about other links.
#include "node_core_fixture.h"
#include "quiet_link_events.h"

namespace atbus::detail {
namespace {

// Listens at an address, answers each hello in the name of another incarnation, and says nothing more.
class welcoming_peer final : private quiet_link_events {
 public:
  welcoming_peer(simulated_network& net, std::uint64_t place, const node_instance& name)
      : name_(name), way_(net, {.host = host_of(place)}, [this, &net] {
          net.at(net.now() + 1us, [this] { way_.poll({}); });
        }) {
    way_.start({place, 77}, *this);
    EXPECT_TRUE(way_.listen(*address::parse(address_of(place))));
  }

  int welcomes = 0;
  int ended = 0;

 private:
  bool received_other(link& from, bytes_view message, bool) override {
    if (message[0] != static_cast<std::byte>(message_kind::hello))
      return true;
    welcome_body body;
    body.self.id = name_.id;
    body.self.incarnation = name_.incarnation;
    body.self.nonce[0] = static_cast<std::byte>(++welcomes);
    body.self.message_limit = 1024;
    body.version = body.self.version_max;
    EXPECT_TRUE(say_to(from, body));
    return true;
  }
  void closed(link&, const error&) override { ++ended; }

  node_instance name_;
  simulated_transport way_;
};

class UnprovenWelcome : public NodeCore {
 protected:
  static constexpr std::string_view secret = "a secret of sixteen bytes";

  // Node 1 dials node 2 at an address where the unproven peer is.
  void dial(welcoming_peer& there) {
    EXPECT_TRUE(one.core().connect(2, address_of(9)));
    one.node.wake();
    ASSERT_TRUE(net.run_until([&] { return there.welcomes == 1; }, 1s));
    net.run_for(5ms);
  }

  party one{net, 1, node_options{}.token(secret)};
  party two{net, 2, node_options{}.token(secret)};
};

TEST_F(UnprovenWelcome, StopsNoReadingOfTheLinkInUse) {
  connect(two, one, 1);
  welcoming_peer there{net, 9, two.core().self()};
  dial(there);
  ASSERT_TRUE(two.send(1, "is read"));
  EXPECT_TRUE(net.run_until([&] { return one.got.size() == 1; }, 1s));
  EXPECT_EQ(there.ended, 0);
}

TEST_F(UnprovenWelcome, OfAnotherIncarnationLeavesTheLinkInUseItsTimeToAnswer) {
  connect(two, one, 1);
  two.node.stop_until(net.now() + 6s);
  welcoming_peer there{net, 9, {2, two.core().self().incarnation + 1}};
  dial(there);
  net.run_for(8s);
  EXPECT_EQ(one.count(endpoint_event::disconnected), 0);
  EXPECT_TRUE(one.is_connected(2));
}

TEST_F(UnprovenWelcome, HoldsUpAnotherHandshakeForTwoSecondsAtMost) {
  welcoming_peer there{net, 9, two.core().self()};
  dial(there);
  two.connect(1);
  EXPECT_TRUE(net.run_until([&] { return there.ended == 1; }, 3s));
  ASSERT_TRUE(net.run_until([&] { return two.is_connected(1); }, 3s));
  ASSERT_TRUE(two.send(1, "is read"));
  EXPECT_TRUE(net.run_until([&] { return one.got.size() == 1; }, 1s));
}

}  // namespace
}  // namespace atbus::detail
