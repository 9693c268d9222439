#include "node/core/peer_table.h"

#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class PeerTable : public parts_of_a_node {
 protected:
  PeerTable() {
    peers.set({[this](peer& of) { made.push_back(&of); },
               [this](peer& of) {
                 erased.push_back(&of);
                 was_there = peers.find(of.id) == &of;
               }});
  }

  peer_table peers{node};
  std::vector<peer*> made;
  std::vector<peer*> erased;
  bool was_there = false;
};

TEST_F(PeerTable, FindsWhatItHasMade) {
  EXPECT_EQ(peers.find(2), nullptr);
  peer& two = peers.find_or_make(2);
  peer& three = peers.find_or_make({3, 77});
  EXPECT_EQ(&peers.find_or_make({2, 88}), &two);
  EXPECT_EQ(peers.find(3), &three);
  EXPECT_EQ(peers.last_found(), &three);
  EXPECT_EQ(peers.find(2), &two);
  EXPECT_EQ(peers.all().size(), 2U);
}

TEST_F(PeerTable, CallsItsHooksForEachPeer) {
  peer& two = peers.find_or_make(2);
  peers.find_or_make(2);
  EXPECT_EQ(made, std::vector<peer*>{&two});
  peers.erase(two);
  EXPECT_EQ(erased, std::vector<peer*>{&two});
  EXPECT_TRUE(was_there);
}

TEST_F(PeerTable, FindsNoErasedPeer) {
  peer& two = peers.find_or_make(2);
  EXPECT_EQ(peers.find(2), &two);
  peers.erase(two);
  EXPECT_EQ(peers.last_found(), nullptr);
  EXPECT_EQ(peers.find(2), nullptr);
}

TEST_F(PeerTable, TellsClientsApartByTheirIncarnations) {
  peer& one = peers.find_or_make({0, 1});
  one.instance = {0, 1};  // as a registration does
  EXPECT_EQ(peers.find({0, 2}), nullptr);
  peer& other = peers.find_or_make({0, 2});
  other.instance = {0, 2};
  EXPECT_EQ(peers.find({0, 1}), &one);
  EXPECT_EQ(&peers.find_or_make({0, 2}), &other);
  EXPECT_TRUE(peers.all().empty());
  peers.erase(one);
  ASSERT_EQ(peers.clients().size(), 1U);
  EXPECT_EQ(peers.clients()[0].get(), &other);
}

TEST_F(PeerTable, GivesAPeerItsPolicyWheneverItComes) {
  const peer_policy slow{overflow_policy::drop_oldest, 5s};
  peer& two = peers.find_or_make(2);
  EXPECT_EQ(two.policy.overflow, node.options.overflow());
  peers.set_policy(2, slow);
  peers.set_policy(3, slow);
  EXPECT_EQ(two.policy.overflow, slow.overflow);
  EXPECT_EQ(peers.find_or_make(3).policy.message_deadline, 5s);
  EXPECT_EQ(peers.find_or_make(4).policy.overflow, node.options.overflow());
  peers.erase(two);
  EXPECT_EQ(peers.find_or_make(2).policy.overflow, slow.overflow);
}

TEST_F(PeerTable, GoesOnBehindTheNumbersOfAnErasedPeer) {
  peer& two = peers.find_or_make(2);
  peer& three = peers.find_or_make(3);
  two.out.passed(10);
  three.out.passed(4);
  peers.erase(two);
  peers.erase(three);
  EXPECT_EQ(peers.find_or_make(2).out.accepted(), 10U);
  EXPECT_EQ(peers.find_or_make(3).out.accepted(), 10U);
}

}  // namespace
}  // namespace atbus::detail
