#include "buffer/run_allocator.h"

#include "test.h"

namespace atbus::detail {
namespace {

class RunAllocator : public ::testing::Test {
 protected:
  static constexpr std::uint32_t blocks = 1024;

  RunAllocator() { runs_.start(tags_.data(), long_runs_.data(), blocks); }

  std::vector<run_tag> tags_ = std::vector<run_tag>(blocks + 1);
  std::vector<long_run> long_runs_ = std::vector<long_run>(blocks / long_run_blocks);
  run_allocator runs_;
};

TEST_F(RunAllocator, StartsAsOneFreeRun) {
  EXPECT_EQ(runs_.free_blocks(), blocks);
  EXPECT_EQ(runs_.longest(), blocks);
}

TEST_F(RunAllocator, ServesTheWholePoolAsOneRun) {
  const block_index all = runs_.take(blocks);
  EXPECT_EQ(all, 0U);
  EXPECT_EQ(runs_.free_blocks(), 0U);
  EXPECT_EQ(runs_.longest(), 0U);
  EXPECT_EQ(runs_.take(1), no_block);
}

TEST_F(RunAllocator, RefusesMoreThanThereIs) {
  EXPECT_EQ(runs_.take(blocks + 1), no_block);
  EXPECT_EQ(runs_.take(run_allocator::blocks_max), no_block);
  EXPECT_EQ(runs_.free_blocks(), blocks);
}

TEST_F(RunAllocator, ServesSingleBlocksToTheLast) {
  std::vector<bool> seen(blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const block_index block = runs_.take(1);
    ASSERT_LT(block, blocks);
    ASSERT_FALSE(seen[block]);
    seen[block] = true;
  }
  EXPECT_EQ(runs_.take(1), no_block);
}

TEST_F(RunAllocator, JoinsARunWithFreeNeighboursOnBothSides) {
  const block_index c = runs_.take(100);
  const block_index b = runs_.take(101);
  const block_index a = runs_.take(102);
  const block_index wall = runs_.take(blocks - 303);
  ASSERT_NE(wall, no_block);
  runs_.give(a);
  runs_.give(c);
  runs_.coalesce_kept();
  EXPECT_EQ(runs_.longest(), 102U);
  runs_.give(b);
  runs_.coalesce_kept();
  EXPECT_EQ(runs_.longest(), 303U);
  EXPECT_EQ(runs_.take(303), a);
}

TEST_F(RunAllocator, FindsARunOfExactlyTheLengthAskedFor) {
  // 33 to 63 blocks share lists in pairs; the search must not skip the one that fits.
  const block_index run = runs_.take(41);
  ASSERT_NE(runs_.take(blocks - 41), no_block);
  runs_.give(run);
  runs_.coalesce_kept();
  EXPECT_EQ(runs_.take(41), run);
}

TEST_F(RunAllocator, FindsALongerRunBehindAShorterOneInTheSameList) {
  const block_index longer = runs_.take(41);
  ASSERT_NE(runs_.take(1), no_block);
  const block_index shorter = runs_.take(40);
  ASSERT_NE(runs_.take(blocks - 82), no_block);
  runs_.give(longer);
  runs_.give(shorter);
  runs_.coalesce_kept();
  EXPECT_EQ(runs_.take(41), longer);
}

TEST_F(RunAllocator, KeepsAReturnedRunForTheNextTakerOfItsLength) {
  const block_index first = runs_.take(50);
  const block_index second = runs_.take(50);
  runs_.give(first);
  runs_.give(second);
  EXPECT_EQ(runs_.free_blocks(), blocks);
  EXPECT_EQ(runs_.take(50), second);
  EXPECT_EQ(runs_.take(50), first);
}

TEST_F(RunAllocator, KnowsWhichRunsAreTaken) {
  const block_index run = runs_.take(50);
  EXPECT_TRUE(runs_.is_taken(run));
  EXPECT_FALSE(runs_.is_taken(run + 1));
  EXPECT_EQ(runs_.length(run), 50U);
  runs_.give(run);
  EXPECT_FALSE(runs_.is_taken(run));
  runs_.coalesce_kept();
  EXPECT_FALSE(runs_.is_taken(run));
}

TEST_F(RunAllocator, KnowsWhichLongRunsAreTaken) {
  const block_index run = runs_.take(700);
  ASSERT_NE(runs_.take(7), no_block);
  EXPECT_TRUE(runs_.is_taken(run));
  EXPECT_FALSE(runs_.is_taken(run + 1));
  EXPECT_EQ(runs_.length(run), 700U);
  runs_.give(run);
  EXPECT_FALSE(runs_.is_taken(run));
  EXPECT_EQ(runs_.take(700), run);
  EXPECT_TRUE(runs_.is_taken(run));
  runs_.give(run);
  runs_.coalesce_kept();
  EXPECT_FALSE(runs_.is_taken(run));
  const block_index shorter = runs_.take(20);
  EXPECT_TRUE(runs_.is_taken(shorter));
  EXPECT_FALSE(runs_.is_taken(run));
}

TEST_F(RunAllocator, AlignsWhenAskedTo) {
  ASSERT_NE(runs_.take_aligned(64), no_block);
  ASSERT_NE(runs_.take(7), no_block);
  for (int i = 0; i < 14; ++i) {
    const block_index block = runs_.take_aligned(64);
    ASSERT_NE(block, no_block);
    EXPECT_EQ(block % 64, 0U);
  }
  EXPECT_EQ(runs_.take_aligned(64), no_block);  // 57 blocks are left
  EXPECT_EQ(runs_.free_blocks(), 57U);
}

TEST_F(RunAllocator, FindsAnAlignedPlaceInARunThatStartsElsewhere) {
  const block_index tail = runs_.take(blocks - 100);
  ASSERT_EQ(tail, 100U);
  ASSERT_EQ(runs_.take(100), 0U);
  runs_.give(0);
  runs_.coalesce_kept();
  const block_index aligned = runs_.take_aligned(64);
  EXPECT_EQ(aligned % 64, 0U);
  EXPECT_EQ(runs_.longest(), 36U);
}

// Random takes and gives of many lengths against a map of what is taken.
TEST_F(RunAllocator, AgreesWithAMapAfterEveryStep) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  std::map<block_index, std::uint32_t> taken;
  std::uint32_t taken_blocks = 0;
  const auto pick = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>{0, most}(random);
  };
  for (int i = 0; i < 50'000; ++i) {
    if (taken.empty() || pick(99) < 55) {
      const bool aligned = pick(9) == 0;
      const std::uint32_t length =
          aligned ? 1U << pick(6) : 1 + (pick(3) == 0 ? pick(300) : pick(20));
      const block_index block = aligned ? runs_.take_aligned(length) : runs_.take(length);
      if (block == no_block)
        continue;
      ASSERT_TRUE(!aligned || block % length == 0);
      ASSERT_LE(block + length, blocks);
      const auto after = taken.lower_bound(block);
      ASSERT_TRUE(after == taken.end() || block + length <= after->first);
      ASSERT_TRUE(after == taken.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= block);
      taken.emplace(block, length);
      taken_blocks += length;
    } else {
      const auto victim =
          std::next(taken.begin(), pick(static_cast<std::uint32_t>(taken.size()) - 1));
      ASSERT_TRUE(runs_.is_taken(victim->first));
      ASSERT_EQ(runs_.length(victim->first), victim->second);
      runs_.give(victim->first);
      taken_blocks -= victim->second;
      taken.erase(victim);
    }
    ASSERT_EQ(runs_.free_blocks(), blocks - taken_blocks);
    if (pick(999) == 0)
      runs_.coalesce_kept();
  }
  for (const auto& [block, length] : taken) {
    runs_.give(block);
  }
  runs_.coalesce_kept();
  EXPECT_EQ(runs_.longest(), blocks);
  // Nothing is left of the runs that were joined.
  const auto tagged = [](const run_tag& tag) { return tag.head != 0; };
  EXPECT_EQ(std::ranges::count_if(tags_, tagged), 2);  // the free run, and the end of the pool
}

}  // namespace
}  // namespace atbus::detail
