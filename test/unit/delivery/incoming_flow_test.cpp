#include "delivery/incoming_flow.h"

#include <gtest/gtest.h>

#include <limits>

namespace atbus::detail {
namespace {

using enum incoming_flow::verdict;

// One on whose path `handled` messages have come.
incoming_flow flow_after(std::uint64_t handled) {
  incoming_flow flow(1);
  flow.path_opened();
  EXPECT_TRUE(flow.announce(1));
  for (std::uint64_t i = 0; i < handled; ++i)
    EXPECT_EQ(flow.arrived(), deliver);
  return flow;
}

TEST(IncomingFlow, CountsMessagesFromTheAnnouncedNumber) {
  incoming_flow flow(1);
  flow.path_opened();
  ASSERT_TRUE(flow.announce(5));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 6U);
}

TEST(IncomingFlow, RefusesAMessageBeforeTheFirstAnnouncementOfAPath) {
  incoming_flow flow = flow_after(3);
  flow.path_opened();
  EXPECT_EQ(flow.arrived(), violation);
  EXPECT_EQ(flow.position().last, 3U);
}

TEST(IncomingFlow, DropsWhatComesAgainOnANewPath) {
  incoming_flow flow = flow_after(3);
  flow.path_opened();
  ASSERT_TRUE(flow.announce(2));
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 4U);
}

TEST(IncomingFlow, NeverHandlesWhatItWasToldToPassOver) {
  incoming_flow flow = flow_after(3);
  ASSERT_TRUE(flow.announce(8));
  EXPECT_EQ(flow.position().last, 7U);
  flow.path_opened();
  ASSERT_TRUE(flow.announce(7));
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), deliver);
}

TEST(IncomingFlow, RefusesToGoBackWithinAPath) {
  incoming_flow flow = flow_after(3);
  EXPECT_TRUE(flow.announce(4));
  EXPECT_FALSE(flow.announce(3));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 4U);
}

TEST(IncomingFlow, RefusesTheNumberThatNoMessageHas) {
  incoming_flow flow(1);
  flow.path_opened();
  EXPECT_FALSE(flow.announce(0));
  EXPECT_EQ(flow.arrived(), violation);
}

TEST(IncomingFlow, RefusesMessagesBeyondTheLastNumberThereIs) {
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  incoming_flow flow(1);
  flow.path_opened();
  ASSERT_TRUE(flow.announce(last));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.arrived(), violation);
  EXPECT_EQ(flow.position().last, last);
}

}  // namespace
}  // namespace atbus::detail
