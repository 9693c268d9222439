#include "node/core/link_sharing.h"

#include "unit/node/core/link_parts_fixture.h"

namespace atbus::detail {
namespace {

class LinkSharing : public link_parts {
 protected:
  // As a node does in each poll; returns how many were told that they have a share.
  int hand_out() {
    int told = 0;
    sharing.hand_out([&](session&) { ++told; });
    return told;
  }
  // Its batch is refused, and it waits for the node to say that there is room.
  void block_a_circuit() {
    link& opened = *relayed.open(42);
    status why;
    ASSERT_NE(opened.claim(10, message_purpose::data, why), nullptr);
    opened.commit(10);
    opened.flush();
    relayed.poll();
    ASSERT_FALSE(relayed.has_due());
  }
  session& add_listed() {
    listed.push_back(std::make_unique<session>(node.timers, links.emplace_back(), nullptr));
    listed.back()->stage = session_stage::registered;
    return *listed.back();
  }

  peer to{2, 0, node.timers};
  session& path_there = add_listed();
};

TEST_F(LinkSharing, GivesTheUserItsShareAndNoMore) {
  block_a_circuit();
  sharing.share(path_there);
  EXPECT_FALSE(sharing.take(to, path_there, 10));
  EXPECT_TRUE(sharing.is_wanted());
  EXPECT_EQ(hand_out(), 0) << "less than half is free";
  EXPECT_TRUE(sharing.is_wanted());
  EXPECT_FALSE(relayed.has_due());
  link_of(path_there).free_share = 1000;
  EXPECT_EQ(hand_out(), 1);
  EXPECT_FALSE(sharing.is_wanted());
  EXPECT_TRUE(relayed.has_due()) << "refused batches come again";
  EXPECT_TRUE(sharing.take(to, path_there, 600));
  EXPECT_TRUE(sharing.take(to, path_there, 600)) << "the last one may be longer";
  EXPECT_FALSE(sharing.take(to, path_there, 1));
}

TEST_F(LinkSharing, MakesNoPeerLookSlow) {
  to.policy.overflow = overflow_policy::disconnect;
  sharing.share(path_there);
  EXPECT_TRUE(sharing.take(to, path_there, 10));
}

TEST_F(LinkSharing, LimitsBatchesWhileTheUserWaitsToTwiceItsShare) {
  sharing.share(path_there);
  for (int i = 0; i != 100; ++i)
    EXPECT_TRUE(link_sharing::takes_batch(path_there, 4000)) << "the user does not wait";
  sharing.want(path_there);
  link_of(path_there).free_share = 1000;
  EXPECT_EQ(hand_out(), 1);
  sharing.want(path_there);
  EXPECT_TRUE(link_sharing::takes_batch(path_there, 1999));
  EXPECT_TRUE(link_sharing::takes_batch(path_there, 1));
  EXPECT_FALSE(link_sharing::takes_batch(path_there, 1));
  EXPECT_EQ(hand_out(), 1);
  sharing.want(path_there);
  EXPECT_TRUE(link_sharing::takes_batch(path_there, 1)) << "the next share has begun";
}

TEST_F(LinkSharing, EndsASecondAfterTheLastBatch) {
  block_a_circuit();
  sharing.share(path_there);
  EXPECT_TRUE(link_sharing::takes_batch(path_there, 10));
  pass(1s);
  EXPECT_TRUE(path_there.shared);
  EXPECT_FALSE(relayed.has_due());
  pass(1s);
  EXPECT_FALSE(path_there.shared);
  EXPECT_TRUE(relayed.has_due());
}

}  // namespace
}  // namespace atbus::detail
