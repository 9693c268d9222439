// Broadcasts through a tree.
#include "routed_message.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class RoutedBroadcasts : public tree_of_six {};

TEST_F(RoutedBroadcasts, ABroadcastThatIsPassedOnTakesAnOpenClaimAway) {
  net.conditions.delay_min = net.conditions.delay_max = 100us;
  node& relay = relay_a->node.user();
  std::unique_ptr<node_slot> slot;
  relay_a->on_message = [&](const message& what) {
    if (what.text() == "claim")
      slot.reset(new node_slot(relay.claim(82, 0, 4)));
    if (what.text() == "commit")
      slot->commit(4);
  };
  EXPECT_TRUE(one->send(80, "claim"));
  EXPECT_TRUE(one->node.user().broadcast(*id_range::parse("82/64"), 0, as_bytes("to all")));
  EXPECT_TRUE(one->send(80, "commit"));
  ASSERT_TRUE(until([&] { return two->got.size() == 1 && relay_a->got.size() == 2; }));
  EXPECT_EQ(relay_a->core().stats().accepted, 0U);
  EXPECT_TRUE(relay_a->send(82, "later"));
  ASSERT_TRUE(until([&] { return two->got.size() == 2; }));
  EXPECT_EQ(two->got, (std::vector<std::string>{"to all", "later"}));
  EXPECT_EQ(relay_a->core().stats().accepted, 1U);
}

TEST_F(RoutedBroadcasts, ABroadcastThatFindsNoRoomTakesAnOpenClaimAwayToo) {
  net.conditions.delay_min = net.conditions.delay_max = 100us;
  net.conditions.queue_size = 20'000;
  two.emplace(net, 82, leaf_options(80));
  ASSERT_TRUE(until([&] { return two->core().parent() == 80 && relay_a->is_connected(82); }));
  two->node.stop_until(net.now() + 1s);
  node& relay = relay_a->node.user();
  std::unique_ptr<node_slot> slot;
  relay_a->on_message = [&](const message& what) {
    if (what.text() == "claim") {
      while (relay.send(82, 0, std::string(1000, 'x'))) {
      }
      slot.reset(new node_slot(relay.claim(82, 0, 4)));
      ASSERT_TRUE(*slot);
    }
    if (what.text() == "commit")
      slot->commit(4);
  };
  const std::string text(2000, 'b');
  EXPECT_TRUE(one->send(80, "claim"));
  EXPECT_TRUE(one->node.user().broadcast(*id_range::parse("82/64"), 0, as_bytes(text)));
  EXPECT_TRUE(one->send(80, "commit"));
  ASSERT_TRUE(until([&] { return relay_a->got.size() == 2; }));
  EXPECT_EQ(relay_a->core().stats().relay_drops, 1U);
  ASSERT_TRUE(until([&] { return relay_a->core().settled(); }));
  EXPECT_EQ(relay_a->core().stats().accepted, two->got.size());
  EXPECT_EQ(std::ranges::count(two->got, std::string(1000, 'x')),
            static_cast<std::ptrdiff_t>(two->got.size()));
}

TEST_F(RoutedBroadcasts, ABroadcastReachesEachNodeOfTheRangeOnce) {
  std::optional<std::vector<bus_id>> reached;
  EXPECT_TRUE(one->node.user().broadcast(*id_range::parse("64/58"), 7, as_bytes("all"), 1s,
                                         [&](const auto& ids) { reached = ids; }));
  one->node.wake();
  ASSERT_TRUE(until([&] { return reached.has_value(); }));
  std::sort(reached->begin(), reached->end());
  EXPECT_EQ(*reached, (std::vector<bus_id>{64, 80, 82, 96, 97}));
  for (auto* by : {&root, &relay_a, &relay_b, &two, &far})
    EXPECT_EQ((*by)->got, std::vector<std::string>{"all"});
  EXPECT_TRUE(one->got.empty());
}

TEST_F(RoutedBroadcasts, ABroadcastBelowOneNodeTroublesNobodyElse) {
  EXPECT_TRUE(root->node.user().broadcast(*id_range::parse("80/60"), 7, as_bytes("some")));
  root->node.wake();
  net.run_for(1s);
  EXPECT_EQ(relay_a->got.size() + one->got.size() + two->got.size(), 3U);
  EXPECT_TRUE(relay_b->got.empty());
  EXPECT_TRUE(far->got.empty());
  EXPECT_EQ(root->node.user().broadcast(*id_range::parse("1000/64"), 7, as_bytes("nobody")),
            errc::no_route);
}

}  // namespace
}  // namespace atbus::detail
