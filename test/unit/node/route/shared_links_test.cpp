// Messages that share a link with those of other nodes, and find little room there.
#include <deque>

#include "routed_message.h"
#include "sanitizer.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class CrowdedRouting : public tree_of_six {
 protected:
  node_options relay_options(std::string_view range) override {
    return tree_of_six::relay_options(range).send_buffer_size(8 * 1024).message_limit(1024);
  }
};

TEST_F(CrowdedRouting, RelaysWithoutRoomLoseNothing) {
  net.conditions.delay_max = 20ms;
  int sent = 0;
  int sent_back = 0;
  const std::string long_one(900, 'x');
  ASSERT_TRUE(net.run_until(
      [&] {
        for (; sent != 500 && one->send(97, std::to_string(sent) + long_one); ++sent) {
        }
        for (; sent_back != 500 && two->send(97, std::to_string(sent_back) + long_one);
             ++sent_back) {
        }
        return far->got.size() == 1000;
      },
      300s));
  EXPECT_GT(relay_a->core().stats().relay_drops, 0U);
  EXPECT_TRUE(one->reports.empty());
  EXPECT_TRUE(two->reports.empty());
}

class SharedLinks : public tree_of_six {};

// What it sends is handled between two turns.
TEST_F(SharedLinks, WhoFillsALinkInEachTurnStillSendsToOthersOverIt) {
  const std::string text(8000, 'x');
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1 && relay_a->is_connected(96); }));
  std::size_t direct = 0;
  for (int turn = 0; turn != 200; ++turn) {
    while (one->send(80, text)) {
    }
    while (one->send(97, text)) {
    }
    one->node.wake();
    net.run_for(2ms);
    direct += std::exchange(relay_a->got, {}).size();
  }
  EXPECT_GT(far->got.size(), 500U);
  EXPECT_GT(direct, 500U);
  EXPECT_TRUE(one->reports.empty());
}

TEST_F(SharedLinks, WhoFillsALinkInEachTurnLetsOthersMessagesThrough) {
  const std::string text(8000, 'x');
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1 && relay_a->is_connected(96); }));
  net.run_for(1s);
  std::size_t own = 0;
  for (int turn = 0; turn != 400; ++turn) {
    while (relay_a->send(96, text)) {
    }
    while (one->send(97, text)) {
    }
    relay_a->node.wake();
    one->node.wake();
    net.run_for(2ms);
    own += std::exchange(relay_b->got, {}).size();
  }
  EXPECT_GT(far->got.size(), 500U);
  EXPECT_GT(own, 500U);
}

// Thirteen circuits have more under way than half of the room in a link.
TEST_F(SharedLinks, WhatPassesThroughLeavesRoomForWhatANodeSendsItself) {
  std::deque<party> more;
  for (std::uint64_t id = 83; id != 96; ++id)
    more.emplace_back(net, id, leaf_options(80));
  for (party& leaf : more)
    EXPECT_TRUE(leaf.send(97, "first"));
  EXPECT_TRUE(relay_a->send(96, "first"));
  ASSERT_TRUE(until([&] {
    return far->got.size() == more.size() && relay_a->is_connected(96) && relay_b->got.size() == 1;
  }));
  net.run_for(1s);
  const std::string text(1000, 'x');
  std::size_t own = 0;
  std::size_t through = 0;
  constexpr int turns = test::has_sanitizer ? 600 : 3000;  // one takes ten times as long then
  for (int turn = 0; turn != turns; ++turn) {
    if (turn == turns / 3)
      own = through = 0;
    while (relay_a->send(96, text)) {
    }
    relay_a->node.wake();
    for (party& leaf : more) {
      while (leaf.send(97, text)) {
      }
      leaf.node.wake();
    }
    net.run_for(2ms);
    own += std::exchange(relay_b->got, {}).size();
    through += std::exchange(far->got, {}).size();
  }
  EXPECT_GT(own, through / 4);
  EXPECT_GT(through, own / 4);
}

}  // namespace
}  // namespace atbus::detail
