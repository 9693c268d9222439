#include "atbus/detail/malloc_queue.hpp"

#include "counting_allocator.h"
#include "queue_kinds.h"

namespace atbus {
namespace {

using test::numbered_bytes;
using test::unwritten_bytes;

constexpr std::size_t chunk_size = 1024;

TEST(MallocQueue, GivesEveryChunkBackWhenDrained) {
  malloc_queue queue{{.byte_limit = 100'000, .chunks = {chunk_size, 2048}}};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(queue.push(numbered_bytes(500, queue.committed())));
  }
  EXPECT_GE(queue.memory(), 50'000U);
  queue.release(queue.size());
  EXPECT_EQ(queue.memory(), 0U);
  EXPECT_EQ(queue.cache().idle_bytes(), 2048U);
  queue.cache().trim();
  EXPECT_EQ(queue.cache().idle_bytes(), 0U);
}

TEST(MallocQueue, GivesChunksBackWhileItIsReleased) {
  malloc_queue queue{{.byte_limit = 100'000, .chunks = {chunk_size, 0}}};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(queue.push(numbered_bytes(100, queue.committed())));
  }
  const std::size_t full = queue.memory();
  queue.release(5000);
  EXPECT_LE(queue.memory(), full / 2 + chunk_size);
}

TEST(MallocQueue, SmallMessagesShareAChunk) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  malloc_queue queue{{.byte_limit = 1'000'000}};
  const auto message = numbered_bytes(64, 0);
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(queue.push(message));
  }
  EXPECT_LE(test::allocations() - before, 11U);  // 640,000 bytes in chunks of 65,536
}

TEST(MallocQueue, AMessageLongerThanAChunkIsContiguous) {
  malloc_queue queue{{.byte_limit = 100'000, .chunks = {chunk_size, 0}}};
  ASSERT_TRUE(queue.push(numbered_bytes(10, 0)));
  mutable_bytes place;
  ASSERT_TRUE(queue.claim(50'000, place));
  std::ranges::copy(numbered_bytes(50'000, 10), place.begin());
  queue.commit(50'000);
  EXPECT_EQ(unwritten_bytes(queue), numbered_bytes(50'010, 0));
  queue.release(queue.size());
  EXPECT_EQ(queue.memory(), 0U);
  EXPECT_EQ(queue.cache().idle_bytes(), 0U);
}

TEST(MallocQueue, AnAbortedClaimGivesItsChunkBack) {
  malloc_queue queue{{.byte_limit = 100'000, .chunks = {chunk_size, 0}}};
  ASSERT_TRUE(queue.push(numbered_bytes(10, 0)));
  const std::size_t before = queue.memory();
  mutable_bytes place;
  ASSERT_TRUE(queue.claim(50'000, place));
  queue.abort();
  EXPECT_EQ(queue.memory(), before);
  ASSERT_TRUE(queue.push(numbered_bytes(500, 10)));
  EXPECT_EQ(queue.memory(), before);
}

TEST(MallocQueue, TakesAtMostTwiceItsLimitAndFourChunks) {
  malloc_queue queue{{.byte_limit = 50'000, .chunks = {chunk_size, 0}}};
  // The worst case in honest use: each message just too long to share a chunk.
  while (queue.push(numbered_bytes(chunk_size / 2, 0))) {
  }
  EXPECT_GT(queue.size() + chunk_size / 2, 50'000U);
  EXPECT_LE(queue.memory(), queue.memory_limit());
}

TEST(MallocQueue, ClaimsThatCommitLittleCannotExceedTheMemoryLimit) {
  malloc_queue queue{{.byte_limit = 50'000, .chunks = {chunk_size, 0}}};
  mutable_bytes place;
  status said;
  while ((said = queue.claim(20'000, place))) {
    place[0] = std::byte{1};
    queue.commit(1);
    ASSERT_LE(queue.memory(), queue.memory_limit());
  }
  EXPECT_EQ(said, errc::would_block);
  queue.release(queue.size());
  EXPECT_TRUE(queue.claim(20'000, place));
}

TEST(MallocQueue, DrainedQueuesShareTheIdleMemoryOfOneCache) {
  chunk_cache cache{{.chunk_bytes = chunk_size, .idle_bytes = 4096}};
  std::vector<std::unique_ptr<malloc_queue>> queues;
  for (int i = 0; i < 100; ++i) {
    queues.push_back(std::make_unique<malloc_queue>(10'000, cache));
    ASSERT_TRUE(queues.back()->push(numbered_bytes(100, 0)));
  }
  for (auto& queue : queues) {
    queue->release(100);
    EXPECT_EQ(queue->memory(), 0U);
  }
  EXPECT_EQ(cache.idle_bytes(), 4096U);
}

TEST(MallocQueue, AQueueDestroyedWhileItHoldsBytesReturnsThem) {
  chunk_cache cache{{.chunk_bytes = chunk_size, .idle_bytes = 1 << 20}};
  {
    malloc_queue queue{100'000, cache};
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(queue.push(numbered_bytes(500, 0)));
    }
  }
  EXPECT_EQ(cache.idle_bytes(), 20 * chunk_size);  // one message a chunk: two do not fit
}

TEST(MallocQueue, AnUnlimitedQueueStillRefusesTheImpossible) {
  malloc_queue queue{{.byte_limit = send_queue::no_limit}};
  mutable_bytes place;
  EXPECT_EQ(queue.claim(send_queue::no_limit, place), errc::message_too_large);
  EXPECT_TRUE(queue.push(numbered_bytes(100, 0)));
}

TEST(ChunkCache, KeepsNoMoreThanItsIdleLimit) {
  chunk_cache cache{{.chunk_bytes = 512, .idle_bytes = 1100}};
  std::array<void*, 4> chunks{};
  for (void*& chunk : chunks) {
    chunk = cache.take();
    ASSERT_NE(chunk, nullptr);
  }
  for (void* chunk : chunks) {
    cache.give(chunk);
  }
  EXPECT_EQ(cache.idle_bytes(), 1024U);
  cache.trim();
  EXPECT_EQ(cache.idle_bytes(), 0U);
}

TEST(ChunkCache, GivesBackWhatLittleTrafficDoesNotNeed) {
  chunk_cache cache{{.chunk_bytes = 512, .idle_bytes = 100 * 512}};
  std::array<void*, 50> chunks{};
  for (void*& chunk : chunks) {
    chunk = cache.take();
    ASSERT_NE(chunk, nullptr);
  }
  for (void* chunk : chunks) {
    cache.give(chunk);
  }
  EXPECT_EQ(cache.idle_bytes(), 50U * 512);
  for (int i = 0; i != 64 + 14; ++i) {
    cache.give(cache.take());
  }
  EXPECT_EQ(cache.idle_bytes(), 25U * 512) << "half of what lay unused";
  for (int i = 0; i != 64 * 10; ++i) {
    cache.give(cache.take());
  }
  EXPECT_LE(cache.idle_bytes(), 2U * 512);
  EXPECT_GE(cache.idle_bytes(), 512U);
}

TEST(ChunkCache, KeepsWhatIsNeededAgainAndAgain) {
  chunk_cache cache{{.chunk_bytes = 512, .idle_bytes = 100 * 512}};
  std::array<void*, 50> chunks{};
  for (int round = 0; round != 20; ++round) {
    for (void*& chunk : chunks) {
      chunk = cache.take();
      ASSERT_NE(chunk, nullptr);
    }
    for (void* chunk : chunks) {
      cache.give(chunk);
    }
    EXPECT_EQ(cache.idle_bytes(), 50U * 512);
  }
}

TEST(ChunkCache, ReturnsTheChunkGivenLast) {
  chunk_cache cache;
  void* const first = cache.take();
  void* const second = cache.take();
  cache.give(first);
  cache.give(second);
  EXPECT_EQ(cache.take(), second);
  EXPECT_EQ(cache.take(), first);
  cache.give(first);
  cache.give(second);
}

TEST(ChunkCache, RaisesAChunkSizeTooSmallForItsBookkeeping) {
  chunk_cache cache{{.chunk_bytes = 1}};
  EXPECT_EQ(cache.chunk_bytes(), 256U);
}

}  // namespace
}  // namespace atbus
