#include "node/core/reachability.h"

#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class Reachability : public parts_of_a_node {
 protected:
  // One more link to `next`.
  session& link_it(link_kind kind) {
    session& made = add_session(kind);
    made.instance = {next.id, 1};
    next.sessions.push_back(&made);
    return made;
  }

  route_table routes{1, std::nullopt};
  parent_search search;
  reachability reach{node, routes, search};
  peer next{2, 0, node.timers};
};

TEST_F(Reachability, UsesTheLinkThatIsInUse) {
  session& slow = link_it(link_kind::tcp);
  session& fast = link_it(link_kind::lanes);
  next.current = &slow;
  EXPECT_EQ(reach.link_to(next), &slow);
  slow.stage = session_stage::away;
  EXPECT_EQ(reach.link_to(next), &fast);
}

TEST_F(Reachability, UsesTheBestLinkWhileNoneIsInUse) {
  EXPECT_EQ(reach.link_to(next), nullptr);
  link_it(link_kind::tcp);
  session& fast = link_it(link_kind::lanes);
  link_it(link_kind::unix_socket);
  EXPECT_EQ(reach.link_to(next), &fast);
}

TEST_F(Reachability, UsesALinkThatWasOpenedAsWhatThePeerIs) {
  session& link = link_it(link_kind::lanes);
  next.as = relation::child;
  EXPECT_EQ(reach.link_to(next), nullptr);
  link.as = relation::child;
  EXPECT_EQ(reach.link_to(next), &link);
  EXPECT_TRUE(reachability::has_place(next));
}

// Each of the two nodes dialled the other: both have to keep the same link.
TEST_F(Reachability, PrefersTheLinkThatBothEndsPrefer) {
  session& dialled_by_one = link_it(link_kind::tcp);
  session& dialled_by_two = link_it(link_kind::tcp);
  dialled_by_one.by_us = true;
  EXPECT_TRUE(reach.better(dialled_by_one, dialled_by_two));
  EXPECT_FALSE(reach.better(dialled_by_two, dialled_by_one));
  EXPECT_FALSE(reach.better(dialled_by_one, dialled_by_one));

  node.self.id = 2;  // the same two links, seen from the other end
  for (session* const one : {&dialled_by_one, &dialled_by_two}) {
    one->by_us = !one->by_us;
    one->instance = {1, 1};
  }
  EXPECT_TRUE(reach.better(dialled_by_one, dialled_by_two));
  EXPECT_FALSE(reach.better(dialled_by_two, dialled_by_one));
}

TEST_F(Reachability, PrefersAKindThenARelationThenADial) {
  session& lane = link_it(link_kind::lanes);
  session& socket = link_it(link_kind::tcp);
  session& other_socket = link_it(link_kind::tcp);
  socket.as = relation::sibling;
  other_socket.by_us = true;
  EXPECT_TRUE(reach.better(lane, socket));
  EXPECT_FALSE(reach.better(socket, lane));
  EXPECT_TRUE(reach.better(socket, other_socket));
  EXPECT_FALSE(reach.better(other_socket, socket));
}

}  // namespace
}  // namespace atbus::detail
