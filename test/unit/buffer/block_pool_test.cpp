#include "atbus/block_pool.hpp"

#include "counting_allocator.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::unique_ptr<block_pool> make(std::size_t bytes, std::size_t block_size = 128) {
  auto made = block_pool::create({.bytes = bytes, .block_size = block_size});
  EXPECT_TRUE(made) << made.error().text();
  return *std::move(made);
}

// Fills the pool with pieces of one size; returns them.
std::vector<std::byte*> fill(block_pool& pool, std::size_t bytes) {
  std::vector<std::byte*> pieces;
  while (std::byte* const piece = pool.allocate(bytes)) {
    pieces.push_back(piece);
  }
  return pieces;
}

void give_all(block_pool& pool, const std::vector<std::byte*>& pieces) {
  for (std::byte* const piece : pieces) {
    pool.deallocate(piece);
  }
}

TEST(BlockPool, GivesAWholePieceOfEverySize) {
  const auto pool = make(4 * mib);
  std::vector<std::pair<std::byte*, std::size_t>> pieces;
  for (std::size_t bytes = 0; bytes < 2000; ++bytes) {
    std::byte* const piece = pool->allocate(bytes);
    ASSERT_NE(piece, nullptr) << bytes;
    std::memset(piece, static_cast<int>(bytes % 251), bytes);
    pieces.emplace_back(piece, bytes);
  }
  for (const auto& [piece, bytes] : pieces) {
    const auto expected = static_cast<std::byte>(bytes % 251);
    ASSERT_TRUE(std::all_of(piece, piece + bytes, [&](std::byte b) { return b == expected; }));
    pool->deallocate(piece);
  }
  pool->trim();
  EXPECT_EQ(pool->free_bytes(), pool->capacity());
}

TEST(BlockPool, AlignsToEightAndToTheBlockSizeFromOneBlockOnUp) {
  const auto pool = make(mib);
  for (std::size_t bytes = 1; bytes < 3000; bytes += 7) {
    const auto address = reinterpret_cast<std::uintptr_t>(pool->allocate(bytes));
    ASSERT_NE(address, 0U);
    ASSERT_EQ(address % 8, 0U) << bytes;
    if (bytes >= 128) {
      ASSERT_EQ(address % 128, 0U) << bytes;
    }
    pool->deallocate(reinterpret_cast<std::byte*>(address));
  }
}

TEST(BlockPool, SaysNoWhenFullAndYesOnceAPieceCameBack) {
  for (const std::size_t bytes : {16U, 24U, 128U, 640U, 1024U, 1025U, 5000U, 87040U}) {
    const auto pool = make(mib);
    const auto pieces = fill(*pool, bytes);
    ASSERT_FALSE(pieces.empty());
    EXPECT_EQ(pool->allocate(bytes), nullptr);
    pool->deallocate(pieces[pieces.size() / 2]);
    EXPECT_EQ(pool->allocate(bytes), pieces[pieces.size() / 2]);
  }
}

TEST(BlockPool, PacksSmallPiecesTightly) {
  const auto pool = make(mib);
  EXPECT_GE(fill(*pool, 24).size() * 24, mib * 99 / 100);
}

TEST(BlockPool, PacksRunsToTheBlock) {
  const auto pool = make(87040 * 10);
  EXPECT_EQ(fill(*pool, 87040).size(), 10U);
}

TEST(BlockPool, HandsOutNoByteTwice) {
  const auto pool = make(mib);
  auto pieces = fill(*pool, 40);
  std::ranges::sort(pieces);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    ASSERT_GE(pieces[i] - pieces[i - 1], 40);
  }
}

TEST(BlockPool, MemoryOfOneSizeServesAnyOtherOnceItIsFree) {
  const auto pool = make(mib);
  const std::size_t at_first = fill(*pool, 87040).size();
  ASSERT_EQ(at_first, mib / 87040);
  const auto fresh = make(mib);
  for (const std::size_t bytes : {24U, 1024U, 100U, 3000U}) {
    give_all(*fresh, fill(*fresh, bytes));
  }
  fresh->trim();  // or runs kept for the next taker of 3000 bytes lie between
  EXPECT_EQ(fill(*fresh, 87040).size(), at_first);
}

TEST(BlockPool, ServesAllOfItselfAsOnePiece) {
  const auto pool = make(mib);
  give_all(*pool, fill(*pool, 24));
  std::byte* const all = pool->allocate(pool->capacity());
  ASSERT_NE(all, nullptr);
  std::memset(all, 1, pool->capacity());
  EXPECT_EQ(pool->free_bytes(), 0U);
  pool->deallocate(all);
}

TEST(BlockPool, RefusesMoreThanItsCapacity) {
  const auto pool = make(mib);
  EXPECT_EQ(pool->allocate(pool->capacity() + 1), nullptr);
  EXPECT_EQ(pool->allocate(~std::size_t{0}), nullptr);
}

TEST(BlockPool, ReturnsThePieceGivenBackLast) {
  const auto pool = make(mib);
  for (const std::size_t bytes : {24U, 1024U, 87040U}) {
    std::byte* const first = pool->allocate(bytes);
    std::byte* const second = pool->allocate(bytes);
    pool->deallocate(second);
    pool->deallocate(first);
    EXPECT_EQ(pool->allocate(bytes), first);
    EXPECT_EQ(pool->allocate(bytes), second);
  }
}

TEST(BlockPool, RegionsThatBecomeEmptyReturnToTheRunsByThemselves) {
  const auto pool = make(8 * mib);
  give_all(*pool, fill(*pool, 24));
  EXPECT_GE(pool->largest_free(), 4 * mib);
}

TEST(BlockPool, KnowsWhatIsFree) {
  const auto pool = make(mib);
  EXPECT_EQ(pool->free_bytes(), pool->capacity());
  EXPECT_EQ(pool->largest_free(), pool->capacity());
  std::byte* const run = pool->allocate(87040);
  EXPECT_EQ(pool->free_bytes(), pool->capacity() - 87040);
  std::byte* const cell = pool->allocate(256);
  EXPECT_EQ(pool->free_bytes(), pool->capacity() - 87040 - 256);
  pool->deallocate(run);
  pool->deallocate(cell);
  EXPECT_EQ(pool->free_bytes(), pool->capacity());
  pool->trim();
  EXPECT_EQ(pool->largest_free(), pool->capacity());
}

TEST(BlockPool, AllocatesNothingElsewhereOnceMade) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  const auto pool = make(mib);
  std::vector<std::byte*> pieces;
  pieces.reserve(mib / 16 + 1);
  const std::uint64_t before = test::allocations();
  for (const std::size_t bytes : {24U, 1000U, 20000U}) {
    while (std::byte* const piece = pool->allocate(bytes)) {
      pieces.push_back(piece);
    }
    give_all(*pool, pieces);
    pieces.clear();
  }
  EXPECT_EQ(test::allocations(), before);
}

TEST(BlockPool, IgnoresANullPointer) {
  const auto pool = make(mib);
  pool->deallocate(nullptr);
  EXPECT_EQ(pool->misuses(), 0U);
}

TEST(BlockPool, WorksWithEveryBlockSize) {
  for (std::size_t block = 16; block <= 65536; block *= 2) {
    const auto pool = make(512 * block, block);
    ASSERT_EQ(pool->capacity(), 512 * block);
    for (std::size_t bytes : {std::size_t{1}, block - 1, block, block + 1, 8 * block, 9 * block}) {
      const auto pieces = fill(*pool, bytes);
      ASSERT_FALSE(pieces.empty()) << "block " << block << ", bytes " << bytes;
      for (std::byte* const piece : pieces) {
        std::memset(piece, 0x5a, bytes);
      }
      give_all(*pool, pieces);
    }
    pool->trim();
    EXPECT_EQ(pool->free_bytes(), pool->capacity()) << "block " << block;
  }
}

TEST(BlockPool, RefusesOptionsThatCannotWorkNamingThem) {
  for (const std::size_t block : {0U, 8U, 100U, 131072U}) {
    const auto made = block_pool::create({.block_size = block});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), errc::invalid_argument);
    EXPECT_NE(made.error().text().find("block_size is " + std::to_string(block)),
              std::string::npos);
  }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 40, ~std::size_t{0}}) {
    const auto made = block_pool::create({.bytes = bytes});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), errc::invalid_argument);
  }
}

TEST(BlockPool, SaysWhatMemoryItObtained) {
  const auto made = block_pool::create({.bytes = mib, .pages = {.prefault = true}});
  ASSERT_TRUE(made);
  EXPECT_GE((*made)->obtained().bytes, mib);
  EXPECT_EQ((*made)->obtained().prefaulted_bytes, (*made)->obtained().bytes);
}

#if defined(NDEBUG)

TEST(BlockPool, ARunGivenBackTwiceIsCountedAndChangesNothing) {
  const auto pool = make(mib);
  std::byte* const run = pool->allocate(5000);
  pool->deallocate(run);
  pool->deallocate(run);
  EXPECT_EQ(pool->misuses(), 1U);
  EXPECT_EQ(pool->allocate(5000), run);
  EXPECT_NE(pool->allocate(5000), run);
}

TEST(BlockPool, APointerFromElsewhereIsCountedAndChangesNothing) {
  const auto pool = make(mib);
  std::byte elsewhere{};
  pool->deallocate(&elsewhere);
  std::byte* const run = pool->allocate(5000);
  pool->deallocate(run + 128);
  pool->deallocate(run + 1);
  EXPECT_EQ(pool->misuses(), 3U);
  EXPECT_EQ(pool->free_bytes(), pool->capacity() - 5120);
}

TEST(BlockPool, ACellGivenBackTwiceIsCountedWhenItsMagazineIsEmptied) {
  const auto pool = make(mib);
  std::byte* const cell = pool->allocate(24);
  pool->deallocate(cell);
  pool->deallocate(cell);
  pool->trim();
  EXPECT_EQ(pool->misuses(), 1U);
  EXPECT_EQ(pool->free_bytes(), pool->capacity());
}

#else

TEST(BlockPoolDeathTest, APieceGivenBackTwiceIsAsserted) {
  const auto pool = make(mib);
  for (const std::size_t bytes : {24U, 1024U, 5000U}) {
    std::byte* const piece = pool->allocate(bytes);
    pool->deallocate(piece);
    EXPECT_DEATH(pool->deallocate(piece), "given back twice");
  }
}

TEST(BlockPoolDeathTest, APieceGivenBackTwiceIsAssertedAfterTrimToo) {
  const auto pool = make(mib);
  for (const std::size_t bytes : {24U, 5000U}) {
    std::byte* const stays = pool->allocate(bytes);
    std::byte* const piece = pool->allocate(bytes);
    pool->deallocate(piece);
    pool->trim();
    EXPECT_DEATH(pool->deallocate(piece), "given back twice");
    pool->deallocate(stays);
  }
}

TEST(BlockPoolDeathTest, APointerFromElsewhereIsAsserted) {
  const auto pool = make(mib);
  std::byte elsewhere{};
  EXPECT_DEATH(pool->deallocate(&elsewhere), "not a piece of this pool");
  std::byte* const cell = pool->allocate(24);
  EXPECT_DEATH(pool->deallocate(cell + 8), "not a piece of this pool");
  std::byte* const run = pool->allocate(5000);
  EXPECT_DEATH(pool->deallocate(run + 128), "not a piece of this pool");
}

#endif

// Random sizes, random order, every byte of every piece checked when it comes back.
TEST(BlockPool, KeepsEveryPieceIntactInRandomUse) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  const auto pick = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>{0, most}(random);
  };
  const auto pool = make(2 * mib);
  struct piece {
    std::byte* at;
    std::size_t bytes;
    std::byte mark;
  };
  std::vector<piece> live;
  std::size_t refused = 0;
  std::size_t fill_percent = 50;
  for (int i = 0; i < 30'000; ++i) {
    if (i % 1000 == 0)
      fill_percent = 35 + pick(35);
    if (live.empty() || pick(99) < fill_percent) {
      constexpr std::size_t sizes[] = {64, 200, 1024, 4000, 20'000, 90'000};
      const std::size_t bytes = pick(sizes[pick(pick(5))]);
      std::byte* const at = pool->allocate(bytes);
      if (!at) {
        ++refused;
        continue;
      }
      const auto mark = static_cast<std::byte>(pick(255));
      std::fill_n(at, bytes, mark);
      live.push_back({at, bytes, mark});
    } else {
      std::swap(live[pick(live.size() - 1)], live.back());
      const piece gone = live.back();
      live.pop_back();
      ASSERT_TRUE(
          std::all_of(gone.at, gone.at + gone.bytes, [&](std::byte b) { return b == gone.mark; }));
      pool->deallocate(gone.at);
    }
  }
  for (const piece& gone : live) {
    pool->deallocate(gone.at);
  }
  pool->trim();
  EXPECT_EQ(pool->free_bytes(), pool->capacity());
  EXPECT_EQ(pool->largest_free(), pool->capacity());
  EXPECT_EQ(pool->misuses(), 0U);
  RecordProperty("refused", std::to_string(refused));
}

}  // namespace
}  // namespace atbus
