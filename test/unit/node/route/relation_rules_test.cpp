// Who can be a child, a parent, a sibling of whom, and with which words all others are refused.
#include "node/route/relation_rules.h"
#include "test.h"

namespace atbus::detail {
namespace {

std::optional<id_range> range(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{*id_range::parse(text)};
}

peer_identity who(std::uint64_t id, std::string_view its, relation as) {
  peer_identity made;
  made.id = id;
  made.range = range(its);
  made.as = as;
  return made;
}

class RelationRules : public ::testing::Test {
 protected:
  peer& add(std::uint64_t id, relation as, std::string_view its) {
    peer& made = linked.emplace_back(id, 0U, timers);
    made.as = as;
    made.range = range(its);
    table.put(made);
    return made;
  }
  void expect_refused(const peer_identity& other, std::string_view text) {
    const error bad = check_relation(table, other);
    EXPECT_EQ(bad, errc::denied) << text;
    EXPECT_EQ(bad.text(), text);
  }
  void expect_taken(const peer_identity& other) {
    const error bad = check_relation(table, other);
    EXPECT_TRUE(bad) << bad.text();
  }

  timer_queue timers;
  std::list<peer> linked;
  route_table table{0x1200, range("0x1200/56")};
};

TEST_F(RelationRules, TakeChildrenWhoseIdAndRangeLieInTheRange) {
  expect_taken(who(0x1201, "", relation::child));
  expect_taken(who(0x1210, "0x1210/60", relation::child));
  expect_taken(who(0x1220, "0x1280/57", relation::child));
}

TEST_F(RelationRules, RefuseChildrenThatDoNotFit) {
  expect_refused(who(0x1300, "", relation::child),
                 "node 4864 (0x1300, no range) can't be a child of node 4608 (0x1200, range "
                 "0x1200/56): the id is outside of its range");
  expect_refused(who(0x1201, "0x1300/60", relation::child),
                 "node 4609 (0x1201, range 0x1300/60) can't be a child of node 4608 (0x1200, range "
                 "0x1200/56): the range is not within its own");
  for (const std::string same_or_wider : {"0x1200/56", "0x1200/55", "0/1"}) {
    expect_refused(who(0x1201, same_or_wider, relation::child),
                   "node 4609 (0x1201, range " + range(same_or_wider)->to_string() +
                       ") can't be a child of node 4608 (0x1200, range 0x1200/56): the range is "
                       "not longer than its own, by a bit or more");
  }
  expect_refused(who(0x1201, "0x1200/60", relation::child),
                 "node 4609 (0x1201, range 0x1200/60) can't be a child of node 4608 (0x1200, range "
                 "0x1200/56): the range holds its id");
}

TEST_F(RelationRules, RefuseChildrenThatOverlapAnotherOne) {
  add(0x1210, relation::child, "0x1220/60");
  const std::string_view in_the_way =
      " can't be a child of node 4608 (0x1200, range 0x1200/56): node 4624 (0x1210, range "
      "0x1220/60) is in the way";
  expect_refused(who(0x1240, "0x1228/61", relation::child),
                 "node 4672 (0x1240, range 0x1228/61)" + std::string{in_the_way});
  expect_refused(who(0x1221, "", relation::child),
                 "node 4641 (0x1221, no range)" + std::string{in_the_way});
  expect_refused(who(0x1240, "0x1210/60", relation::child),
                 "node 4672 (0x1240, range 0x1210/60)" + std::string{in_the_way});
  expect_taken(who(0x1210, "0x1220/60", relation::child));
}

TEST_F(RelationRules, RefuseChildrenWhereThereIsNoRange) {
  table = route_table{7, {}};
  expect_refused(who(8, "", relation::child),
                 "node 8 (0x8, no range) can't be a child of node 7 (0x7, no range): it has no "
                 "range for children");
}

TEST_F(RelationRules, TakeAParentWhoseRangeHoldsTheIdAndTheRange) {
  expect_taken(who(0x1000, "0x1000/52", relation::parent));
  table = route_table{0x1201, {}};
  expect_taken(who(0x1200, "0x1200/56", relation::parent));
}

TEST_F(RelationRules, RefuseAParentThatDoesNotFit) {
  const std::string_view self = "node 4608 (0x1200, range 0x1200/56) can't be a child of ";
  expect_refused(who(0x1000, "", relation::parent),
                 std::string{self} + "node 4096 (0x1000, no range): it has no range for children");
  expect_refused(who(0x2000, "0x2000/52", relation::parent),
                 std::string{self} +
                     "node 8192 (0x2000, range 0x2000/52): the id is outside of "
                     "its range");
  expect_refused(who(0x1210, "0x1000/52", relation::parent),
                 std::string{self} + "node 4624 (0x1210, range 0x1000/52): the range holds its id");
  // Two that name each other as parents: one of the ranges would have to be longer than itself.
  expect_refused(who(0x1201, "0x1200/56", relation::parent),
                 std::string{self} +
                     "node 4609 (0x1201, range 0x1200/56): the range is not longer "
                     "than its own, by a bit or more");
}

TEST_F(RelationRules, TakeSiblingsWithTheSameParentThatOverlapNobody) {
  add(0x1000, relation::parent, "0x1000/52");
  expect_taken(who(0x1300, "0x1300/56", relation::sibling));
  expect_taken(who(0x1400, "", relation::sibling));
}

TEST_F(RelationRules, RefuseSiblingsThatAreNone) {
  const std::string_view self = " can't be a sibling of node 4608 (0x1200, range 0x1200/56)";
  expect_refused(who(0x1300, "", relation::sibling),
                 "node 4864 (0x1300, no range)" + std::string{self} + ", which has no parent now");
  add(0x1000, relation::parent, "0x1000/52");
  add(0x1400, relation::sibling, "0x1400/56");
  expect_refused(who(0x2300, "", relation::sibling),
                 "node 8960 (0x2300, no range)" + std::string{self} +
                     ": it is no child of node 4096 (0x1000, range 0x1000/52)");
  expect_refused(who(0x1300, "0x1000/55", relation::sibling),
                 "node 4864 (0x1300, range 0x1000/55)" + std::string{self} +
                     ": it is no child of node 4096 (0x1000, range 0x1000/52)");
  expect_refused(who(0x1201, "", relation::sibling),
                 "node 4609 (0x1201, no range)" + std::string{self} + ": the ranges overlap");
  expect_refused(
      who(0x1300, "0x1200/55", relation::sibling),
      "node 4864 (0x1300, range 0x1200/55)" + std::string{self} + ": the ranges overlap");
  expect_refused(who(0x1480, "", relation::sibling),
                 "node 5248 (0x1480, no range)" + std::string{self} +
                     ": node 5120 (0x1400, range 0x1400/56) is in the way");
}

TEST_F(RelationRules, TakeAnyPeer) {
  expect_taken(who(0x1200, "0/1", relation::peer));
  expect_taken(who(0x1210, "0x1200/56", relation::peer));
}

}  // namespace
}  // namespace atbus::detail
