// Which link a flow takes when several come and go, over a simulated network.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "simulated_party.h"

namespace atbus::detail {
namespace {

TEST(NodeCorePaths, RegistersAnewWhenANumberOnTheLostLinkMayStillCome) {
  simulated_network net{1};
  party one{net, 1};
  ASSERT_TRUE(one.core().listen("unix:///one"));
  // Acknowledges nothing, not even where the flow begins.
  auto first = std::make_unique<hand_played>(net, 2, 1, true);
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2); }, 5s));
  hand_played better{net, 2, 1, true, false, {}, "unix:///one"};
  ASSERT_TRUE(net.run_until([&] { return better.is_registered(); }, 5s));
  net.run_for(1s);
  ASSERT_FALSE(better.has_ended());
  first.reset();
  ASSERT_TRUE(net.run_until([&] { return better.has_ended(); }, 5s));
  EXPECT_EQ(one.count(endpoint_event::moved), 0);
}

}  // namespace
}  // namespace atbus::detail
