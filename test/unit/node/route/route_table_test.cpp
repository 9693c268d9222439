// The next node on the way: rule by rule, and whole trees of which each node knows its neighbours.
#include "node/route/route_table.h"

#include <list>

#include "test.h"

namespace atbus::detail {
namespace {

id_range range_of(std::string_view text) {
  return *id_range::parse(text);
}

class RouteTable : public ::testing::Test {
 protected:
  peer& add(std::uint64_t id, relation as, std::optional<id_range> its = {}) {
    peer& made = linked.emplace_back(id, 0U, timers);
    made.as = as;
    made.range = its;
    table.put(made);
    return made;
  }

  timer_queue timers;
  std::list<peer> linked;
  route_table table{0x1200, range_of("0x1200/56")};  // up to 0x12ff
  peer& parent = add(0x1000, relation::parent, range_of("0x1000/52"));
  peer& leaf = add(0x1201, relation::child);
  peer& child = add(0x1210, relation::child, range_of("0x1220/60"));
  peer& sibling = add(0x1301, relation::sibling, range_of("0x1300/56"));
  peer& neighbour = add(0x9000, relation::peer, range_of("0x9000/52"));
};

TEST_F(RouteTable, GoesToWhomItIsLinkedWith) {
  for (peer* const one : {&parent, &leaf, &child, &sibling, &neighbour})
    EXPECT_EQ(table.next(one->id, nullptr), one);
}

TEST_F(RouteTable, GoesDownToTheChildWhoseRangeHoldsTheId) {
  EXPECT_EQ(table.next(0x1220, nullptr), &child);
  EXPECT_EQ(table.next(0x122f, &parent), &child);
  EXPECT_EQ(table.next(0x122f, &sibling), &child);
}

TEST_F(RouteTable, GoesToTheSiblingWhoseRangeHoldsTheId) {
  EXPECT_EQ(table.next(0x13ff, nullptr), &sibling);
  EXPECT_EQ(table.next(0x13ff, &child), &sibling);
}

TEST_F(RouteTable, NeverGoesUpWithWhatLiesBelow) {
  EXPECT_EQ(table.next(0x12ff, nullptr), nullptr);
  EXPECT_EQ(table.next(0x12ff, &leaf), nullptr);
  EXPECT_EQ(table.next(0x1200, &leaf), nullptr) << "that is this node";
}

TEST_F(RouteTable, GoesUpWithAllElse) {
  EXPECT_EQ(table.next(0x1400, nullptr), &parent);
  EXPECT_EQ(table.next(0xffff, &leaf), &parent);
  EXPECT_EQ(table.next(0x9001, &leaf), &parent) << "what a peer has below it is its own business";
}

TEST_F(RouteTable, NeverGoesBack) {
  EXPECT_EQ(table.next(0x122f, &child), nullptr);
  EXPECT_EQ(table.next(child.id, &child), nullptr);
  EXPECT_EQ(table.next(0x1400, &parent), nullptr);
  EXPECT_EQ(table.next(0x13ff, &sibling), nullptr);
}

TEST_F(RouteTable, GoesDownOnlyWithWhatComesFromTheParentOrASibling) {
  for (const peer* const from : {&parent, &sibling}) {
    for (const bus_id to : {0x1000, 0x13ff, 0x1301, 0x9000, 0x1400})
      EXPECT_EQ(table.next(to, from), nullptr) << to.value();
    EXPECT_EQ(table.next(leaf.id, from), &leaf);
  }
}

TEST_F(RouteTable, CarriesNothingForPeersAndNothingForOthersToThem) {
  for (const bus_id to : {0x1000, 0x1210, 0x1220, 0x1301, 0x9000})
    EXPECT_EQ(table.next(to, &neighbour), nullptr) << to.value();
  EXPECT_EQ(table.next(neighbour.id, &sibling), nullptr);
  EXPECT_EQ(table.next(neighbour.id, &leaf), &parent) << "it may know another way";
}

TEST_F(RouteTable, HasNoWayOverALinkThatIsLost) {
  for (const peer* const one : {&parent, &child, &sibling})
    table.remove(*one);
  EXPECT_EQ(table.parent(), nullptr);
  for (const bus_id to : {0x1000, 0x1210, 0x1220, 0x1301, 0x13ff, 0xffff})
    EXPECT_EQ(table.next(to, nullptr), nullptr) << to.value();
  EXPECT_EQ(table.next(leaf.id, nullptr), &leaf);
}

TEST_F(RouteTable, TakesWhatAPeerIsNow) {
  child.range = range_of("0x1240/60");
  table.put(child);
  EXPECT_EQ(table.next(0x1220, nullptr), nullptr);
  EXPECT_EQ(table.next(0x1240, nullptr), &child);
}

TEST_F(RouteTable, TakesFromAChildWhatIsItsOwn) {
  EXPECT_TRUE(table.may_come_from(0x1210, child));
  EXPECT_TRUE(table.may_come_from(0x122f, child));
  EXPECT_FALSE(table.may_come_from(0x1230, child));
  EXPECT_FALSE(table.may_come_from(0x1201, child));
  EXPECT_FALSE(table.may_come_from(0x1202, leaf));
  EXPECT_FALSE(table.may_come_from(0x1200, leaf)) << "that is this node";
}

TEST_F(RouteTable, TakesFromTheParentWhatIsNotBelow) {
  EXPECT_TRUE(table.may_come_from(0x1000, parent));
  EXPECT_TRUE(table.may_come_from(0xffff, parent));
  EXPECT_FALSE(table.may_come_from(0x1200, parent));
  EXPECT_FALSE(table.may_come_from(0x1220, parent));
}

TEST_F(RouteTable, TakesFromASiblingWhatIsItsOwnAndNotBelow) {
  EXPECT_TRUE(table.may_come_from(0x1301, sibling));
  EXPECT_TRUE(table.may_come_from(0x13ff, sibling));
  EXPECT_FALSE(table.may_come_from(0x1400, sibling));
  sibling.range = range_of("0x1000/52");
  EXPECT_FALSE(table.may_come_from(0x1200, sibling));
  EXPECT_FALSE(table.may_come_from(0x1220, sibling));
}

TEST_F(RouteTable, TakesFromAPeerWhatItSaysItself) {
  EXPECT_TRUE(table.may_come_from(0x9000, neighbour));
  EXPECT_FALSE(table.may_come_from(0x9001, neighbour));
}

TEST_F(RouteTable, NamesWhoIsInTheWay) {
  EXPECT_EQ(table.in_the_way(0x1230, range_of("0x1230/60")), nullptr);
  EXPECT_EQ(table.in_the_way(0x1210, range_of("0x1220/60")), nullptr) << "itself";
  EXPECT_EQ(table.in_the_way(0x1230, range_of("0x1228/61")), &child) << "within its range";
  EXPECT_EQ(table.in_the_way(0x1230, range_of("0x1220/59")), &child) << "around its range";
  EXPECT_EQ(table.in_the_way(0x1222, {}), &child) << "an id within its range";
  EXPECT_EQ(table.in_the_way(0x1208, range_of("0x1200/60")), &leaf) << "around its id";
  EXPECT_EQ(table.in_the_way(0x9000, range_of("0x9000/56")), nullptr) << "that is no child's";
}

// The same from a list, rule by rule.
peer* look_through(const std::list<peer>& linked, bus_id self, const id_range& own,
                   bus_id destination, const peer* from) {
  const auto usable = [&](const peer& to) {
    const bool down = to.as == relation::child;
    const bool up = from != nullptr && from->as == relation::child;
    const bool beside = to.as == relation::peer || (from && from->as == relation::peer);
    return &to != from && (from == nullptr || ((down || up) && !beside));
  };
  for (const peer& one : linked) {
    if (one.id == destination && usable(one))
      return const_cast<peer*>(&one);
  }
  for (const relation as : {relation::child, relation::sibling}) {
    for (const peer& one : linked) {
      if (one.as == as && one.range && one.range->contains(destination) && usable(one))
        return const_cast<peer*>(&one);
    }
  }
  if (destination == self || own.contains(destination))
    return nullptr;
  for (const peer& one : linked) {
    if (one.as == relation::parent && usable(one))
      return const_cast<peer*>(&one);
  }
  return nullptr;
}

TEST(RouteTableOfManyLinks, SaysWhatAListOfThemSays) {
  std::mt19937_64 random{7};
  for (int round = 0; round < 200; ++round) {
    timer_queue timers;
    std::list<peer> linked;
    const id_range own = *id_range::make(0x4000, 50);
    route_table table{0x4000, own};
    const auto add = [&](bus_id id, relation as, std::optional<id_range> its) {
      peer& made = linked.emplace_back(id, 0U, timers);
      made.as = as;
      made.range = its;
      table.put(made);
    };
    if (random() % 4 != 0)
      add(1, relation::parent, range_of("0/1"));
    for (std::uint64_t slot = 0; slot < 40; ++slot) {
      const std::uint64_t first = 0x4000 + slot * 0x200;  // half of them in the own range
      const relation as = own.contains(bus_id{first}) ? relation::child : relation::sibling;
      const auto length = static_cast<unsigned>(55 + random() % 9);
      if (random() % 2 == 0)
        add(first + random() % 0x200, as, *id_range::make(first, length));
    }
    for (std::uint64_t id = 0x9100; id < 0x9110; ++id)
      add(id, relation::peer,
          random() % 2 == 0 ? std::optional{range_of("0x9000/52")} : std::nullopt);
    for (int change = 0; change < 10 && !linked.empty(); ++change) {
      table.remove(linked.front());
      linked.pop_front();
    }
    std::vector<const peer*> from{nullptr};
    for (const peer& one : linked)
      from.push_back(&one);
    for (int question = 0; question < 1000; ++question) {
      const bus_id to = 0x3f00 + random() % 0x5300;
      const peer* const by = from[random() % from.size()];
      ASSERT_EQ(table.next(to, by), look_through(linked, 0x4000, own, to, by)) << to.to_hex();
    }
  }
}

// A tree whose nodes have tables of their own.
struct tree {
  struct member {
    member(bus_id who, std::optional<id_range> its) : id(who), table(who, its) {}
    bus_id id;
    route_table table;
    std::list<peer> linked;
  };

  tree(std::mt19937_64& random, std::size_t wanted) {
    const id_range all = range_of("0x1000000/40");
    grow(random, members.emplace_back(0x1000000, all), all, wanted);
  }

  void link(member& one, relation as, member& other) {
    peer& made = one.linked.emplace_back(other.id, 0U, timers);
    made.as = as;
    made.range = other.table.own();
    one.table.put(made);
  }
  void link_both(member& one, relation as, member& other) {
    link(one, as, other);
    link(other, opposite(as), one);
  }

  // Each child has an eighth of its parent's range, and the first id of it.
  void grow(std::mt19937_64& random, member& parent, const id_range& its, std::size_t wanted) {
    std::vector<member*> children;
    const unsigned length = its.length() + 3;
    for (std::uint64_t part = 1; part < 8 && members.size() < wanted && length < 64; ++part) {
      if (random() % 3 == 0)
        continue;
      const id_range below = *id_range::make(its.first().value() + (part << (64 - length)), length);
      member& child = members.emplace_back(below.first(), below);
      link_both(parent, relation::child, child);
      for (member* const sibling : children) {
        if (random() % 4 == 0)
          link_both(*sibling, relation::sibling, child);
      }
      children.push_back(&child);
      grow(random, child, below, wanted);
    }
  }

  [[nodiscard]] member& at(bus_id id) { return *std::ranges::find(members, id, &member::id); }

  timer_queue timers;
  std::list<member> members;
};

TEST(RouteTableOfTrees, LeadsFromEachNodeToEachOtherAndNoRelayFindsFault) {
  std::mt19937_64 random{3};
  for (int round = 0; round < 20; ++round) {
    tree all{random, 2 + random() % 40};
    for (const tree::member& from : all.members) {
      for (const tree::member& to : all.members) {
        if (&from == &to)
          continue;
        bus_id at = from.id;
        bus_id before;
        for (int hops = 0; at != to.id; ++hops) {
          ASSERT_LT(hops, 16) << from.id.to_hex() << " to " << to.id.to_hex();
          tree::member& here = all.at(at);
          const auto came_from = std::ranges::find(here.linked, before, &peer::id);
          const peer* const by = came_from != here.linked.end() ? &*came_from : nullptr;
          ASSERT_TRUE(by == nullptr || here.table.may_come_from(from.id, *by));
          const peer* const next = here.table.next(to.id, by);
          ASSERT_NE(next, nullptr)
              << from.id.to_hex() << " to " << to.id.to_hex() << " at " << at.to_hex();
          before = at;
          at = next->id;
        }
      }
    }
  }
}

}  // namespace
}  // namespace atbus::detail
