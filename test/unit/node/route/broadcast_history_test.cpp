#include "node/route/broadcast_history.h"

#include <new>
#include <set>

#include "counting_allocator.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t first_number = 0xffff'ffff'ffff'fff0U;  // the numbers wrap

TEST(BroadcastHistory, TakesEachNumberOnce) {
  broadcast_history history;
  for (std::uint64_t i = 0; i != 1000; ++i) {
    EXPECT_TRUE(history.is_first(7, first_number + i));
    EXPECT_FALSE(history.is_first(7, first_number + i));
    EXPECT_TRUE(history.is_first(8, first_number + i));
  }
  EXPECT_EQ(history.size(), 2U);
}

// Half of an entry would stay and count, and others would be forgotten for it.
TEST(BroadcastHistory, KeepsNothingOfSourcesForWhichItHasNoMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "allocations can't fail here";
  const auto has_memory = [](broadcast_history& history, std::uint64_t source, std::uint64_t good) {
    try {
      const test::allocation_failure all{good};
      return history.is_first(source, first_number);
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  for (std::uint64_t good = 0; good != 20; ++good) {
    broadcast_history history;
    EXPECT_TRUE(history.is_first(7, first_number));
    if (has_memory(history, 8, good))
      return;
    for (std::uint64_t source = 10; source != 10 + broadcast_history::sources_max; ++source)
      EXPECT_FALSE(has_memory(history, source, good));
    EXPECT_FALSE(history.is_first(7, first_number)) << "behind " << good << " allocations";
  }
  ADD_FAILURE() << "it takes more and more memory";
}

TEST(BroadcastHistory, TakesWhatIsMissingFromTheOtherWay) {
  broadcast_history history;
  for (std::uint64_t i = 1; i < 200; i += 2)
    EXPECT_TRUE(history.is_first(7, i));
  for (std::uint64_t i = 1; i != 200; ++i)
    EXPECT_EQ(history.is_first(7, i), i % 2 == 0) << i;
}

TEST(BroadcastHistory, TakesNothingFromBelowTheWindow) {
  broadcast_history history;
  EXPECT_TRUE(history.is_first(7, 1000));
  EXPECT_FALSE(history.is_first(7, 1000 - broadcast_history::window));
  EXPECT_TRUE(history.is_first(7, 1001 - broadcast_history::window));
}

TEST(BroadcastHistory, KnowsLateCopiesOfTheIncarnationBefore) {
  broadcast_history history;
  const std::uint64_t later = 5 * broadcast_history::reach;
  EXPECT_TRUE(history.is_first(7, 100));
  EXPECT_TRUE(history.is_first(7, later));
  EXPECT_FALSE(history.is_first(7, 100));
  EXPECT_TRUE(history.is_first(7, 101));
  EXPECT_FALSE(history.is_first(7, later));
  EXPECT_TRUE(history.is_first(7, later + 1));
}

TEST(BroadcastHistory, ForgetsTheSourceThatWasSilentLongest) {
  broadcast_history history;
  EXPECT_TRUE(history.is_first(1, 5));
  EXPECT_TRUE(history.is_first(2, 5));
  for (std::uint64_t id = 3; id != broadcast_history::sources_max + 3; ++id) {
    EXPECT_TRUE(history.is_first(id, 5));
    EXPECT_FALSE(history.is_first(1, 5));
  }
  EXPECT_EQ(history.size(), broadcast_history::sources_max);
  EXPECT_TRUE(history.is_first(2, 5));
}

// Two ways that each keep the order, and drop some.
TEST(BroadcastHistory, TakesNoNumberTwiceFromTwoWays) {
  std::mt19937 dice{11};
  for (int round = 0; round != 200; ++round) {
    broadcast_history history;
    std::multiset<std::uint64_t> taken;
    std::uint64_t at[2] = {first_number, first_number};
    const std::uint64_t end = first_number + 2000;
    while (at[0] != end || at[1] != end) {
      const auto way = dice() % 2;
      const auto steps = dice() % (round % 2 == 0 ? 8 : 700);
      for (std::size_t i = 0; i != steps && at[way] != end; ++i, ++at[way]) {
        if (dice() % 4 != 0 && history.is_first(7, at[way]))
          taken.insert(at[way]);
      }
    }
    for (const std::uint64_t number : taken)
      ASSERT_EQ(taken.count(number), 1U);
    ASSERT_GT(taken.size(), 1000U);
  }
}

}  // namespace
}  // namespace atbus::detail
