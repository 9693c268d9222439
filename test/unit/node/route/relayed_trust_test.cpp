// Nodes of one user on one host need no token. Their relay may let unproven peers in; that opens the relay
// only.
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class RelayedTrust : public ::testing::Test {
 protected:
  void start(node_options of_leaf) {
    EXPECT_TRUE(relay.core().listen("unix:///run/relay"));
    leaf =
        std::make_unique<simulated_node>(net, 65, of_leaf.parent("unix:///run/relay"), host_of(64));
    leaf->core().handlers().on_message = [this](const message& m) { got.emplace_back(m.text()); };
    leaf->core().handlers().on_undelivered = [this](const undelivered&) { ++reports; };
    ASSERT_TRUE(net.run_until(
        [&] { return leaf->core().parent() == bus_id{64} && afar.core().parent() == bus_id{64}; },
        60s));
  }

  simulated_network net{1};
  party relay{net, 64, plain().children("64/58"), host_of(64)};
  party afar{net, 80, plain().parent(address_of(64)), host_of(80)};
  std::unique_ptr<simulated_node> leaf;
  std::vector<std::string> got;
  int reports = 0;
};

TEST_F(RelayedTrust, OfARelayThatLetsUnprovenPeersInIsNotTheirs) {
  start(node_options{});
  EXPECT_TRUE(afar.send(65, "from afar"));
  EXPECT_TRUE(leaf->user().send(80, 0, as_bytes("to whoever it is")));
  EXPECT_TRUE(relay.send(65, "from a process of the same user"));
  net.run_for(60s);
  EXPECT_EQ(got, std::vector<std::string>{"from a process of the same user"});
  EXPECT_EQ(afar.got, std::vector<std::string>{});
  EXPECT_EQ(afar.reports.size(), 1U);
  EXPECT_EQ(reports, 1);
}

TEST_F(RelayedTrust, ExtendsToNoBroadcastOfAnUnprovenPeer) {
  start(node_options{});
  EXPECT_TRUE(afar.core().broadcast().send(*id_range::parse("64/58"), 0, as_bytes("from afar")));
  net.run_for(1s);
  EXPECT_EQ(relay.got.size(), 1U);
  EXPECT_EQ(got.size(), 0U);
  EXPECT_EQ(leaf->core().stats().broadcast_drops, 1U);
}

TEST_F(RelayedTrust, IsNotAskedForWhereUnprovenPeersMayCome) {
  start(plain());
  EXPECT_TRUE(afar.send(65, "from afar"));
  EXPECT_TRUE(leaf->user().send(80, 0, as_bytes("to whoever it is")));
  EXPECT_TRUE(afar.core().broadcast().send(*id_range::parse("64/58"), 0, as_bytes("to all")));
  net.run_for(1s);
  EXPECT_EQ(got.size(), 2U);
  EXPECT_EQ(afar.got.size(), 1U);
}

}  // namespace
}  // namespace atbus::detail
