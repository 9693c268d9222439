#include "atbus/detail/block_ring.hpp"

#include <limits>

#include "counting_allocator.h"
#include "queue_kinds.h"

namespace atbus {
namespace {

using test::numbered_bytes;
using test::unwritten_bytes;

class BlockRing : public ::testing::Test {
 protected:
  block_ring ring_{{.blocks = 8, .block_size = 128}};

  void push(std::size_t length) {
    ASSERT_TRUE(ring_.push(numbered_bytes(length, ring_.committed())));
  }
};

TEST_F(BlockRing, TakesAllItsMemoryWithTheFirstClaimAndNoneAfterwards) {
  EXPECT_EQ(ring_.memory(), 0U);
  push(1);
  EXPECT_EQ(ring_.memory(), 1024U);
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  const auto message = numbered_bytes(100, 0);
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 10'000; ++i) {
    if (ring_.push(message))
      continue;
    ring_.mark_written(ring_.unwritten());
    ring_.release(ring_.size() / 2);
  }
  EXPECT_EQ(test::allocations(), before);
}

TEST_F(BlockRing, StartsOnACacheLine) {
  mutable_bytes place;
  ASSERT_TRUE(ring_.claim(1, place));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place.data()) % 64, 0U);
  ring_.abort();
}

TEST_F(BlockRing, WrapsWithoutSplittingARun) {
  push(600);
  ring_.release(500);
  push(400);
  mutable_bytes place;
  ASSERT_TRUE(ring_.claim(300, place));  // 24 bytes are left before the end
  std::ranges::copy(numbered_bytes(300, 1000), place.begin());
  ring_.commit(300);
  std::array<bytes_view, 3> runs;
  ASSERT_EQ(ring_.gather(runs), 2U);
  EXPECT_EQ(runs[0].size(), 500U);
  EXPECT_EQ(runs[1].size(), 300U);
  const auto all = numbered_bytes(1300, 0);
  EXPECT_EQ(unwritten_bytes(ring_), std::vector(all.begin() + 500, all.end()));
}

TEST_F(BlockRing, UsesTheEndAgainAfterTheHeadHasPassedIt) {
  push(600);
  ring_.release(500);
  push(400);
  push(300);           // at the base
  ring_.release(500);  // the head passes the end
  EXPECT_EQ(ring_.size(), 300U);
  push(700);
  EXPECT_EQ(ring_.size(), 1000U);
  std::array<bytes_view, 3> runs;
  EXPECT_EQ(ring_.gather(runs), 1U);
}

TEST_F(BlockRing, AnAbortedWrapKeepsTheEndForSmallerMessages) {
  push(600);
  ring_.release(500);
  push(200);
  mutable_bytes place;
  ASSERT_TRUE(ring_.claim(300, place));
  ring_.abort();
  push(224);
  std::array<bytes_view, 3> runs;
  EXPECT_EQ(ring_.gather(runs), 1U);
}

TEST_F(BlockRing, RefusesWhatFitsOnlyInTwoPieces) {
  push(600);
  ring_.release(300);
  mutable_bytes place;
  const status refused = ring_.claim(500, place);  // 424 at the end, 300 at the base
  EXPECT_EQ(refused, errc::would_block);
  EXPECT_EQ(refused.fact(1), 424U);
  EXPECT_TRUE(ring_.claim(424, place));
}

TEST_F(BlockRing, ADrainedRingStartsAgainAtItsBase) {
  mutable_bytes first;
  ASSERT_TRUE(ring_.claim(100, first));
  ring_.commit(100);
  ring_.release(100);
  mutable_bytes second;
  ASSERT_TRUE(ring_.claim(100, second));
  EXPECT_EQ(second.data(), first.data());
}

TEST_F(BlockRing, AClaimThatWrappedSurvivesTheReleaseOfAllBeforeIt) {
  push(900);
  ring_.release(500);
  mutable_bytes place;
  ASSERT_TRUE(ring_.claim(300, place));
  ring_.release(400);
  std::ranges::copy(numbered_bytes(300, 900), place.begin());
  ring_.commit(300);
  push(700);
  const auto all = numbered_bytes(1900, 0);
  EXPECT_EQ(unwritten_bytes(ring_), std::vector(all.begin() + 900, all.end()));
}

TEST(BlockRingSizes, WithoutBlocksRefuseEveryMessage) {
  block_ring none{{.blocks = 0}};
  mutable_bytes place;
  EXPECT_EQ(none.claim(1, place), errc::message_too_large);
  block_ring flat{{.blocks = 4, .block_size = 0}};
  EXPECT_EQ(flat.claim(1, place), errc::message_too_large);
}

TEST(BlockRingSizes, ThatOverflowRefuseEveryMessage) {
  block_ring huge{{.blocks = std::numeric_limits<std::size_t>::max() / 64, .block_size = 128}};
  mutable_bytes place;
  EXPECT_EQ(huge.byte_limit(), 0U);
  EXPECT_EQ(huge.claim(1, place), errc::message_too_large);
}

}  // namespace
}  // namespace atbus
