// Broadcasts in a tree whose nodes are linked across it as well, and have limits of their own.
#include "protocol/broadcast_head.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class Broadcasts : public tree_of_six {
 protected:
  static constexpr std::string_view all = "64/58";

  static status broadcast(std::optional<party>& by, std::string_view range, std::string_view text) {
    const status sent = by->node.user().broadcast(*id_range::parse(range), 0, as_bytes(text));
    by->node.wake();
    return sent;
  }
  // A link of its own between nodes of different branches.
  void link(std::optional<party>& from, std::uint64_t to) {
    from->connect(to);
    ASSERT_TRUE(until([&] { return from->is_connected(to); }));
    net.run_for(1s);
  }
  // Of all nodes together.
  [[nodiscard]] std::uint64_t violations() {
    std::uint64_t sum = 0;
    for (auto* of : {&root, &relay_a, &relay_b, &one, &two, &far})
      sum += (*of)->core().stats().violations;
    return sum;
  }
  [[nodiscard]] std::size_t copies(std::optional<party>& at, std::string_view text) const {
    return static_cast<std::size_t>(std::ranges::count(at->got, text));
  }
};

TEST_F(Broadcasts, ReachAPeerThatIsInTheTreeOnce) {
  link(one, 97);
  for (const char* text : {"first", "second", "third"}) {
    EXPECT_TRUE(broadcast(one, all, text));
    net.run_for(1s);
    for (auto* at : {&root, &relay_a, &relay_b, &two, &far})
      EXPECT_EQ(copies(*at, text), 1U) << text;
  }
  EXPECT_EQ(violations(), 0U);
  EXPECT_EQ(far->core().stats().duplicates, 3U);
  EXPECT_EQ(one->core().stats().links_lost, 0U);
  EXPECT_EQ(relay_b->core().stats().links_lost, 0U);
}

TEST_F(Broadcasts, AreNotHandedOnByPeers) {
  link(one, 96);  // a router, with parent and child
  EXPECT_TRUE(broadcast(one, all, "text"));
  net.run_for(1s);
  for (auto* at : {&root, &relay_a, &relay_b, &two, &far})
    EXPECT_EQ(copies(*at, "text"), 1U);
  EXPECT_EQ(violations(), 0U);
}

TEST_F(Broadcasts, ReachAPeerThatIsInNoTree) {
  party outside{net, 70};
  outside.connect(81);
  ASSERT_TRUE(until([&] { return outside.is_connected(81); }));
  EXPECT_TRUE(broadcast(one, all, "text"));
  net.run_for(1s);
  EXPECT_EQ(outside.got, std::vector<std::string>{"text"});
}

TEST_F(Broadcasts, ArriveOnceByBothWaysAlsoInBursts) {
  link(one, 97);
  for (int i = 0; i != 2000; ++i)
    EXPECT_TRUE(one->node.user().broadcast(*id_range::parse(all), 0, as_bytes(std::to_string(i))));
  one->node.wake();
  net.run_for(5s);
  EXPECT_EQ(far->got, numbers(0, 2000));
}

TEST_F(Broadcasts, ArriveOnceAlsoWhenThePeerLinkEndsMeanwhile) {
  net.conditions.delay_min = net.conditions.delay_max = 50ms;
  link(one, 97);
  EXPECT_TRUE(broadcast(one, all, "text"));
  net.run_for(75ms);  // the copy of the peer link is there, that of the tree is not
  ASSERT_EQ(copies(far, "text"), 1U);
  EXPECT_TRUE(one->core().disconnect(97));
  one->node.wake();
  net.run_for(2s);
  EXPECT_EQ(copies(far, "text"), 1U);
}

TEST_F(Broadcasts, OfASourceThatRestartsArriveOnce) {
  link(one, 97);
  EXPECT_TRUE(broadcast(one, all, "before"));
  net.run_for(1s);
  one.reset();
  one.emplace(net, 81, leaf_options(80));
  ASSERT_TRUE(until([&] { return one->core().parent() == 80; }));
  link(one, 97);
  EXPECT_TRUE(broadcast(one, all, "after"));
  net.run_for(1s);
  EXPECT_EQ(far->got, (std::vector<std::string>{"before", "after"}));
}

TEST_F(Broadcasts, OverANodesLimitPassThroughIt) {
  relay_b.emplace(net, 96, relay_options("96/60").message_limit(1000));
  ASSERT_TRUE(until([&] { return relay_b->core().parent() == 64 && far->core().parent() == 96; }));
  const std::string text(2000, 'x');
  for (int i = 0; i != 2; ++i) {
    EXPECT_TRUE(broadcast(one, all, text));
    net.run_for(2s);
  }
  EXPECT_EQ(copies(far, text), 2U);
  EXPECT_TRUE(relay_b->got.empty());
  EXPECT_EQ(relay_b->core().stats().broadcast_drops, 2U);
  EXPECT_EQ(relay_b->core().stats().relayed, 2U);
  EXPECT_EQ(relay_b->logged("message_limit is 1000"), 2);  // one a second
  EXPECT_EQ(violations(), 0U);
  EXPECT_EQ(relay_b->core().stats().links_lost, 0U);
}

TEST_F(Broadcasts, InTheNameOfAnotherCostTheForgerItsLink) {
  hand_played forger{net,  83,   80,
                     true, true, [](introduction& self) { self.as = relation::child; }};
  ASSERT_TRUE(until([&] { return forger.is_registered(); }));
  const broadcast_head head{.to = *id_range::parse(all), .source = 81, .number = 5};
  byte_buffer message(broadcast_head_size);
  encode(head, message.data());
  forger.say_bytes(message);
  ASSERT_TRUE(until([&] { return forger.has_ended(); }));
  EXPECT_EQ(relay_a->core().stats().violations, 1U);
  EXPECT_TRUE(two->got.empty());
}

// What nobody has checked says nothing about whose messages it may pass on.
TEST_F(Broadcasts, OfAChildThatClaimsARangeAsAPeerCostTheForgerItsLink) {
  hand_played child{net, 83, 80, true, true, [](introduction& self) { self.as = relation::child; }};
  ASSERT_TRUE(until([&] { return child.is_registered(); }));
  const hand_played beside{net, 83, 80, true, false, [](introduction& self) {
                             self.nonce[0] = std::byte{6};
                             self.range_length = 1;
                           }};
  ASSERT_TRUE(until([&] { return beside.is_registered(); }));
  net.run_for(100ms);
  const broadcast_head head{.to = *id_range::parse(all), .source = 97, .number = 5};
  byte_buffer forged(broadcast_head_size);
  encode(head, forged.data());
  child.say_bytes(forged);
  net.run_for(1s);
  EXPECT_TRUE(child.has_ended());
  EXPECT_EQ(relay_a->core().stats().violations, 1U);
  EXPECT_EQ(violations(), 1U);
}

TEST_F(Broadcasts, FromASiblingGoToChildrenOnly) {
  hand_played sibling{net,  112,  80,
                      true, true, [](introduction& self) { self.as = relation::sibling; }};
  ASSERT_TRUE(until([&] { return sibling.is_registered(); }));
  const broadcast_head head{.to = *id_range::parse(all), .source = 112, .number = 5};
  byte_buffer message(broadcast_head_size);
  encode(head, message.data());
  sibling.say_bytes(message);
  ASSERT_TRUE(until([&] { return one->got.size() == 1 && two->got.size() == 1; }));
  net.run_for(1s);
  EXPECT_TRUE(root->got.empty());
  EXPECT_EQ(violations(), 0U);
  EXPECT_EQ(relay_a->core().stats().links_lost, 0U);
}

}  // namespace
}  // namespace atbus::detail
