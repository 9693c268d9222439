// How often a parent is asked and answers, and what is taken from it.
#include "node/peer/sibling_search.h"
#include "test.h"

namespace atbus::detail {
namespace {

TEST(SiblingSearch, AsksForAnIdOnceInAMinute) {
  sibling_search search;
  EXPECT_TRUE(search.ask(7, 0s));
  EXPECT_FALSE(search.ask(7, 59s));
  EXPECT_TRUE(search.ask(8, 59s));
  EXPECT_TRUE(search.ask(7, 60s));
}

TEST(SiblingSearch, AsksForSoManyIdsInAMinute) {
  sibling_search search;
  std::size_t asked = 0;
  for (std::uint64_t id = 1; id != 10000; ++id)
    asked += search.ask(id, 1s) ? 1U : 0U;
  EXPECT_EQ(asked, sibling_search::questions_max);
}

// The first children of a hundred relays, each of which has 2^16 ids.
TEST(SiblingSearch, AsksForMostOfAHundredIdsWhereverTheyDiffer) {
  for (const unsigned shift : {0U, 8U, 16U, 32U, 48U}) {
    sibling_search search;
    std::size_t asked = 0;
    for (std::uint64_t id = 1; id <= 100; ++id)
      asked += search.ask(1 + (id << shift), 1s) ? 1U : 0U;
    EXPECT_GT(asked, 75U) << shift;
  }
}

TEST(SiblingSearch, TakesOneAnswerToEachQuestion) {
  sibling_search search;
  EXPECT_FALSE(search.take_answer(7));
  EXPECT_TRUE(search.ask(7, 1s));
  EXPECT_FALSE(search.take_answer(7 + sibling_search::questions_max));
  EXPECT_TRUE(search.take_answer(7));
  EXPECT_FALSE(search.take_answer(7));
  EXPECT_FALSE(search.take_answer(0)) << "nobody has that id";
}

TEST(SiblingSearch, SaysOnceThatOneCannotBeReachedUntilItIs) {
  sibling_search search;
  EXPECT_TRUE(search.set_unreachable(7));
  EXPECT_FALSE(search.set_unreachable(7));
  search.set_reached(7);
  EXPECT_TRUE(search.set_unreachable(7));
}

TEST(SiblingSearch, BeginsAnewWithAnotherParent) {
  sibling_search search;
  EXPECT_TRUE(search.ask(7, 1s));
  EXPECT_TRUE(search.set_unreachable(7));
  search.parent_lost();
  EXPECT_FALSE(search.take_answer(7));
  EXPECT_TRUE(search.ask(7, 1s));
  EXPECT_TRUE(search.set_unreachable(7));
}

TEST(AnswerBudget, IsTwiceWhatOneMayAskInAMinute) {
  answer_budget budget;
  std::size_t given = 0;
  for (int i = 0; i != 10000; ++i)
    given += budget.take(1s) ? 1U : 0U;
  EXPECT_EQ(given, 2 * sibling_search::questions_max);
  EXPECT_FALSE(budget.take(59s));
  EXPECT_TRUE(budget.take(61s));
}

}  // namespace
}  // namespace atbus::detail
