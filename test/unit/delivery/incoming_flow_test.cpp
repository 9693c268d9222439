#include "delivery/incoming_flow.h"

#include <limits>

#include "test.h"

namespace atbus::detail {
namespace {

using enum incoming_flow::verdict;

// One on whose path `handled` messages have come.
incoming_flow flow_after(std::uint64_t handled) {
  incoming_flow flow(1);
  EXPECT_TRUE(flow.move_to_path(0));
  EXPECT_TRUE(flow.announce(1, 0));
  for (std::uint64_t i = 0; i < handled; ++i)
    EXPECT_EQ(flow.arrived(), deliver);
  return flow;
}

TEST(IncomingFlow, CountsMessagesFromTheAnnouncedNumber) {
  incoming_flow flow(1);
  EXPECT_TRUE(flow.move_to_path(0));
  ASSERT_TRUE(flow.announce(5, 0));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 6U);
}

TEST(IncomingFlow, RefusesAMessageBeforeTheFirstAnnouncementOfAPath) {
  incoming_flow flow = flow_after(3);
  EXPECT_TRUE(flow.move_to_path(0));
  EXPECT_EQ(flow.arrived(), violation);
  EXPECT_EQ(flow.position().last, 3U);
}

TEST(IncomingFlow, DropsWhatComesAgainOnANewPath) {
  incoming_flow flow = flow_after(3);
  EXPECT_TRUE(flow.move_to_path(0));
  ASSERT_TRUE(flow.announce(2, 0));
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 4U);
}

TEST(IncomingFlow, NeverHandlesWhatItWasToldToPassOver) {
  incoming_flow flow = flow_after(3);
  ASSERT_TRUE(flow.announce(8, 0));
  EXPECT_EQ(flow.position().last, 7U);
  EXPECT_TRUE(flow.move_to_path(0));
  ASSERT_TRUE(flow.announce(7, 0));
  EXPECT_EQ(flow.arrived(), duplicate);
  EXPECT_EQ(flow.arrived(), deliver);
}

TEST(IncomingFlow, RefusesToGoBackWithinAPath) {
  incoming_flow flow = flow_after(3);
  EXPECT_TRUE(flow.announce(4, 0));
  EXPECT_FALSE(flow.announce(3, 0));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.position().last, 4U);
}

TEST(IncomingFlow, RefusesTheNumberThatNoMessageHas) {
  incoming_flow flow(1);
  EXPECT_TRUE(flow.move_to_path(0));
  EXPECT_FALSE(flow.announce(0, 0));
  EXPECT_EQ(flow.arrived(), violation);
}

TEST(IncomingFlow, RefusesMessagesBeyondTheLastNumberThereIs) {
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  incoming_flow flow(1);
  EXPECT_TRUE(flow.move_to_path(0));
  ASSERT_TRUE(flow.announce(last, 0));
  EXPECT_EQ(flow.arrived(), deliver);
  EXPECT_EQ(flow.arrived(), violation);
  EXPECT_EQ(flow.position().last, last);
}

TEST(IncomingFlow, DoesNotGoBackToAPathThatItsSenderHasLeft) {
  incoming_flow flow{1};
  ASSERT_TRUE(flow.move_to_path(2));
  ASSERT_TRUE(flow.announce(1, 2));
  EXPECT_FALSE(flow.move_to_path(1));
  EXPECT_EQ(flow.arrived(), incoming_flow::verdict::deliver);
  EXPECT_TRUE(flow.move_to_path(3));
}

}  // namespace
}  // namespace atbus::detail
