// What the store of sample/cache takes of the machine's memory.
#include <fstream>

#include "cache_values.h"
#include "sanitizer.h"
#include "scratch_directory.h"

namespace atbus::test {
namespace {

constexpr std::size_t arena_bytes = 24 * mebibyte;
// What the store has besides its arena: the figure is in cache_store.h.
#if defined(ATBUS_TEST_SANITIZER)
constexpr std::size_t allowance = 64 * mebibyte;
#else
constexpr std::size_t allowance = std::size_t{64} << 10;
#endif

// A field of /proc/self/status, such as "RssAnon:".
std::size_t resident_bytes(const std::string& wanted) {
  std::ifstream file{"/proc/self/status"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(wanted))
      return std::stoull(line.substr(wanted.size())) * 1024;
  }
  return 0;
}

// Everything that makes it work for its memory: growth, eviction, replacement, large after small.
void fill(cache::cache_store& store) {
  const auto& value = random_pool();
  std::array<char, 16> key{};
  for (std::uint64_t i = 0; i < 120'000; ++i) {
    const std::uint64_t number = i * 7 % 50'021;
    std::memcpy(key.data(), &number, sizeof number);
    const std::size_t bytes = i % 1000 == 0 ? 2 * mebibyte : 20 + number % 600;
    ASSERT_TRUE(
        store.set(as_bytes({key.data(), key.size()}), std::array{bytes_view{value}.first(bytes)}));
  }
  EXPECT_GT(store.stats().evictions, 10'000U);
  EXPECT_LT(store.stats().free_bytes, arena_bytes / 4);
}

TEST(CacheMemory, IsTheArenaAndLittleMore) {
  random_pool();
  const std::size_t before = resident_bytes("RssAnon:");
  ASSERT_GT(before, 0U);
  const auto store = opened({.memory_bytes = arena_bytes});
  fill(*store);
  const std::size_t taken = resident_bytes("RssAnon:") - before;
  EXPECT_GT(taken, arena_bytes * 9 / 10);
  EXPECT_LE(taken, arena_bytes + allowance);
}

TEST(CacheMemory, IsThatOfTheFileIfItIsKept) {
  random_pool();
  const scratch_directory directory;
  const cache::store_options chosen{.memory_bytes = arena_bytes,
                                    .keep_file = directory.path() + "/cache"};
  const std::size_t anonymous = resident_bytes("RssAnon:");
  const std::size_t shared = resident_bytes("RssShmem:");
  auto store = opened(chosen);
  fill(*store);
  store.reset();
  store = opened(chosen);
  EXPECT_GT(store->stats().items, 10'000U);
  EXPECT_LE(resident_bytes("RssAnon:") - anonymous, allowance);
  EXPECT_LE(resident_bytes("RssShmem:") - shared, arena_bytes);
}

TEST(CacheMemory, MayBeInPlaceBeforehand) {
  const std::size_t before = resident_bytes("RssAnon:");
  const auto store =
      opened({.memory_bytes = arena_bytes, .pages = {.prefault = true, .huge_pages = true}});
  EXPECT_GE(resident_bytes("RssAnon:") - before, arena_bytes);
  EXPECT_EQ(store->stats().memory_bytes, arena_bytes);
}

// Pages that are put in place keep what they hold.
TEST(CacheMemory, OfAFileMayBeInPlaceBeforehand) {
  const scratch_directory directory;
  const cache::store_options chosen{.memory_bytes = mebibyte,
                                    .pages = {.prefault = true, .huge_pages = true},
                                    .keep_file = directory.path() + "/cache"};
  const auto value = value_bytes(1, 0, 100'000);
  ASSERT_TRUE(set_whole(*opened(chosen), 1, value));
  EXPECT_EQ(get_whole(*opened(chosen), 1), value);
}

TEST(CacheMemory, ThatTheSystemHasNotIsAnError) {
  const cache::store_options too_much{.memory_bytes = cache::store_options::memory_bytes_max,
                                      .keep_file = "/proc/self/cache"};
  EXPECT_FALSE(cache::cache_store::open(too_much));
}

}  // namespace
}  // namespace atbus::test
