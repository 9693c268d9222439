// Addresses of NATS servers that a peer offers: who dials one shows that server who it is.
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

TEST(OfferedNats, IsNeverDialled) {
  simulated_network net{1};
  const auto leaf = [] { return plain().parent(address_of(64)); };
  party root{net, 64, plain().children("64/58")};
  party one{net, 65, leaf(), host_of(9)};
  party two{net, 66, leaf(), host_of(9)};
  net.separate(65, 66);
  ASSERT_TRUE(one.core().listen("nats://server:4222/subject"));
  one.node.wake();
  net.run_for(1s);
  EXPECT_TRUE(two.send(65, "hello"));
  ASSERT_TRUE(net.run_until([&] { return one.got.size() == 1; }, 10s));
  net.run_for(30s);
  EXPECT_EQ(two.logged("nats://"), 0);
  EXPECT_TRUE(one.send(66, "hello"));
  ASSERT_TRUE(net.run_until([&] { return two.got.size() == 1; }, 10s));
}

}  // namespace
}  // namespace atbus::detail
