// The store of sample/cache in a file: what the next process finds.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_values.h"
#include "child_process.h"
#include "from_environment.h"
#include "sanitizer.h"
#include "scratch_directory.h"
#include "shared_memory.h"

namespace atbus::test {
namespace {

class KeptCache : public ::testing::Test {
 protected:
  [[nodiscard]] cache::store_options options(std::size_t memory_bytes = mebibyte) const {
    return {.memory_bytes = memory_bytes, .keep_file = file_};
  }
  [[nodiscard]] errc refusal(const cache::store_options& wanted) const {
    const auto made = cache::cache_store::open(wanted);
    if (!made) {
      EXPECT_NE(made.error().text().find(wanted.keep_file), std::string::npos);
    }
    return made.error().code();
  }

  [[nodiscard]] std::vector<char> read_file() const {
    std::vector<char> bytes(mebibyte);
    const int fd = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(fd);
    return bytes;
  }
  void write_file(const std::vector<char>& bytes) const { write_file(bytes, file_); }
  static void write_file(const std::vector<char>& bytes, const std::string& file) {
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }

  scratch_directory directory_;
  std::string file_ = directory_.path() + "/cache";
};

TEST_F(KeptCache, FindsItsItemsAgain) {
  constexpr std::uint64_t keys = 3000;
  std::map<std::uint64_t, std::vector<std::byte>> expected;
  cache::store_stats before;
  {
    manual_clock clock;
    auto chosen = options(4 * mebibyte);
    chosen.clock = &clock;
    const auto store = opened(chosen);
    for (std::uint64_t i = 0; i < 3 * keys; ++i) {
      const std::uint64_t key = i % keys;
      ASSERT_TRUE(set_whole(*store, key, value_bytes(key, i, size_of(key, i, 200'000)),
                            key % 10 == 0 ? 1000ms : cache::cache_store::forever));
      if (i % 7 == 0)
        store->erase(as_bytes(key_text(i % keys / 2)));
    }
    for (std::uint64_t key = 0; key < keys; ++key) {
      if (auto value = get_whole(*store, key))
        expected[key] = std::move(*value);
    }
    auto pending = store->reserve(as_bytes("pending"), 1000);
    EXPECT_TRUE(pending);
    before = store->stats();
  }
  EXPECT_GT(expected.size(), keys / 10);
  manual_clock clock{999ms};
  auto chosen = options(4 * mebibyte);
  chosen.clock = &clock;
  const auto store = opened(chosen);
  const cache::store_stats now = store->stats();
  EXPECT_EQ(now.items, before.items);
  EXPECT_EQ(now.item_bytes, before.item_bytes);
  EXPECT_EQ(now.damaged, 0U);
  EXPECT_EQ(now.evictions, 0U);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const auto found = get_whole(*store, key);
    EXPECT_EQ(found.has_value(), expected.contains(key));
    if (found) {
      EXPECT_EQ(*found, expected[key]);
    }
  }
  clock.advance(1ms);
  for (std::uint64_t key = 0; key < keys; key += 10)
    EXPECT_FALSE(get_whole(*store, key));
}

TEST_F(KeptCache, GoesOnAfterEachRestart) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto store = opened(options());
    EXPECT_EQ(store->stats().damaged, 0U);
    for (std::uint64_t key = 0; key < 500; ++key) {
      if (const auto found = get_whole(*store, key)) {
        EXPECT_EQ(*found, value_bytes(key, key % 3, found->size()));
      }
      ASSERT_TRUE(set_whole(*store, key, value_bytes(key, key % 3, 100 * round + key)));
      ASSERT_TRUE(get_whole(*store, key));
    }
  }
}

TEST_F(KeptCache, BelongsToOneStoreAtATime) {
  auto store = opened(options());
  EXPECT_EQ(refusal(options()), errc::denied);
  store.reset();
  EXPECT_TRUE(opened(options()));
}

TEST_F(KeptCache, RefusesAFileThatIsNoCacheOfThatSize) {
  write_file(std::vector<char>(mebibyte, 'x'));
  EXPECT_EQ(refusal(options()), errc::not_a_segment);
  EXPECT_EQ(refusal(options(2 * mebibyte)), errc::geometry_mismatch);
  EXPECT_EQ(read_file(), std::vector<char>(mebibyte, 'x'));

  unlink(file_.c_str());
  opened(options());
  const auto made = read_file();
  EXPECT_EQ(refusal(options(2 * mebibyte)), errc::geometry_mismatch);
  for (const auto& [at, expected] : {std::pair{0, errc::not_a_segment},
                                     {8, errc::version_mismatch},
                                     {12, errc::not_a_segment},
                                     {24, errc::not_a_segment},
                                     {32, errc::not_a_segment}}) {
    auto changed = made;
    changed[static_cast<std::size_t>(at)] ^= 1;
    write_file(changed);
    EXPECT_EQ(refusal(options()), expected) << at;
  }
}

TEST_F(KeptCache, SaysWhyAFileCannotBeUsed) {
  auto chosen = options();
  chosen.keep_file = directory_.path();
  EXPECT_EQ(refusal(chosen), errc::system_error);  // EISDIR
  chosen.keep_file = directory_.path() + "/missing/cache";
  EXPECT_EQ(refusal(chosen), errc::system_error);  // ENOENT
  chosen.keep_file = "/dev/null";
  EXPECT_EQ(refusal(chosen), errc::not_supported);
}

// A process that died after it made the file and before it wrote the header.
TEST_F(KeptCache, MakesAnEmptyFileACache) {
  write_file(std::vector<char>(mebibyte, '\0'));
  const auto store = opened(options());
  EXPECT_EQ(store->stats().items, 0U);
  EXPECT_TRUE(set_whole(*store, 1, {}));
}

// Whatever bytes change, a value is right or gone.
TEST_F(KeptCache, ServesNoDamagedBytes) {
  constexpr std::uint64_t keys = 400;
  {
    const auto store = opened(options());
    for (std::uint64_t i = 0; i < 4 * keys; ++i)
      ASSERT_TRUE(
          set_whole(*store, i % keys, value_bytes(i % keys, 0, size_of(i % keys, 0, 50'000))));
  }
  const auto whole = read_file();
  dice random{11};
  std::uint64_t damaged = 0;
  for (int round = 0; round < 100; ++round) {
    auto changed = whole;
    const std::uint64_t changes = 1 + random.below(round % 3 == 0 ? 1000 : 10);
    for (std::uint64_t i = 0; i < changes; ++i) {
      // Half of them in the bits of what is committed and in the extents just behind.
      const std::uint64_t limit = random.one_in(2) ? 40'000 : mebibyte;
      const std::uint64_t at = 64 + random.below(limit - 64);
      changed[at] = static_cast<char>(random.one_in(2) ? random.word()
                                                       : changed[at] ^ (1 << random.below(8)));
    }
    write_file(changed);
    const auto store = opened(options());
    ASSERT_TRUE(store);
    damaged += store->stats().damaged;
    for (std::uint64_t key = 0; key < keys; ++key) {
      if (const auto found = get_whole(*store, key)) {
        EXPECT_EQ(*found, value_bytes(key, 0, size_of(key, 0, 50'000)));
      }
    }
    // It is a store like any other.
    for (std::uint64_t key = 0; key < 20; ++key) {
      const auto value = value_bytes(key, 1, 1000);
      ASSERT_TRUE(set_whole(*store, key, value));
      EXPECT_EQ(get_whole(*store, key), value);
    }
  }
  EXPECT_GT(damaged, 100U);
}

// The number of a call that changed a key, and whether it was an erase: the lowest bit.
using change = std::uint64_t;

std::vector<std::byte> value_of(std::uint64_t key, change made) {
  return value_bytes(key, made, 8 + size_of(key, made, 60'000));
}

bool is_value_of(change made, std::uint64_t key, const std::vector<std::byte>& found) {
  return (made & 1) == 0 && found == value_of(key, made);
}

// What the writer tells the test of each key before and after a call.
struct progress {
  static constexpr std::uint64_t keys = 200;
  std::array<std::atomic<change>, keys> begun{};
  std::array<std::atomic<change>, keys> done{};
  std::atomic<change> changes{};
};

void write_for_ever(const cache::store_options& options, progress& told, std::uint64_t seed) {
  const auto store = required(cache::cache_store::open(options));
  dice random{seed};
  for (;;) {
    const std::uint64_t key = random.below(progress::keys);
    const change made = (++told.changes << 1) | (random.one_in(8) ? 1 : 0);
    const auto value = value_of(key, made);
    told.begun[key] = made;
    if ((made & 1) != 0)
      (*store)->erase(as_bytes(key_text(key)));
    else
      require(bool{set_whole(**store, key, value)}, "set");
    told.done[key] = made;
  }
}

TEST_F(KeptCache, ForkedWriterMayBeKilledAtAnyMoment) {
  shared<progress> told;
  for (auto& none : told->done)
    none = 1;
  random_pool();
  dice random{3};
  std::uint64_t found_values = 0;
  for (std::uint64_t round = 0; round < 60 && !HasFailure(); ++round) {
    child_process writer{[&] {
      write_for_ever(options(), *told, round);
      return 0;
    }};
    const change wanted = told->changes + 1 + random.below(300);
    const auto deadline = now() + patience;
    while (told->changes < wanted && now() < deadline)
      std::this_thread::yield();
    writer.kill_and_wait();
    const auto store = opened(options());
    ASSERT_TRUE(store);
    EXPECT_EQ(store->stats().damaged, 0U);
    for (std::uint64_t key = 0; key < progress::keys; ++key) {
      const auto found = get_whole(*store, key);
      if (!found)
        continue;
      ++found_values;
      EXPECT_TRUE(is_value_of(told->done[key], key, *found) ||
                  is_value_of(told->begun[key], key, *found))
          << "key " << key << " in round " << round;
    }
  }
  EXPECT_GT(found_values, 1000U);
}

// A full store in which three items change: one is replaced, one erased, and a large one is added,
// for which others are evicted.
constexpr std::uint64_t changed_keys = 300;
std::size_t bytes_of(std::uint64_t key, std::uint64_t version) {
  return version == 0 ? 100 + key * 37 % 7000 : 8000;
}

// What a process that died now would leave, opened: each value is one that was set, and no item is
// damaged.
void expect_whole(const cache::store_options& options) {
  const auto store = opened(options);
  ASSERT_TRUE(store);
  ASSERT_EQ(store->stats().damaged, 0U);
  for (std::uint64_t key = 0; key <= changed_keys; ++key) {
    const auto found = get_whole(*store, key);
    if (!found)
      continue;
    const std::uint64_t version = found->size() == bytes_of(key, 0) ? 0 : 1;
    ASSERT_EQ(*found, value_bytes(key, version, bytes_of(key, version))) << key;
  }
}

// Looks each time so many instructions later, at others in every run. ATBUS_CACHE_INSTRUCTIONS=1:
// at all.
TEST_F(KeptCache, ForkedWriterMayBeKilledAtEachInstruction) {
  const std::uint64_t instructions =
      from_environment("ATBUS_CACHE_INSTRUCTIONS", one_moment_in == 1 ? 127 : 1009);
  random_pool();
  child_process writer{[&] {
    const auto store = required(cache::cache_store::open(options()));
    for (std::uint64_t key = 0; key < changed_keys; ++key)
      require(bool{set_whole(**store, key, value_bytes(key, 0, bytes_of(key, 0)))}, "set");
    const std::array keys{key_text(0), key_text(1), key_text(changed_keys)};
    const auto replacement = value_bytes(0, 1, bytes_of(0, 1));
    const auto large = value_bytes(changed_keys, 1, bytes_of(changed_keys, 1));
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
      return 1;
    raise(SIGSTOP);
    const status replaced = (*store)->set(as_bytes(keys[0]), std::array{bytes_view{replacement}});
    (*store)->erase(as_bytes(keys[1]));
    const status added = (*store)->set(as_bytes(keys[2]), std::array{bytes_view{large}});
    raise(SIGSTOP);
    return replaced && added ? 0 : 1;
  }};
  int state = 0;
  ASSERT_EQ(waitpid(writer.pid(), &state, 0), writer.pid());
  if (!WIFSTOPPED(state))
    GTEST_SKIP() << "ptrace is not allowed here";

  const int fd = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  void* const seen = mmap(nullptr, mebibyte, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  ASSERT_NE(seen, MAP_FAILED);
  const cache::store_options copied{.memory_bytes = mebibyte, .keep_file = file_ + "-copy"};
  std::vector<char> last(mebibyte);
  int copies = 0;
  while (WIFSTOPPED(state) && !HasFailure()) {
    if (std::memcmp(last.data(), seen, mebibyte) != 0) {  // it has written since
      std::memcpy(last.data(), seen, mebibyte);
      ++copies;
      write_file(last, copied.keep_file);
      expect_whole(copied);
    }
    for (std::uint64_t step = 0; step < instructions && WIFSTOPPED(state); ++step) {
      ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, writer.pid(), nullptr, nullptr), 0);
      ASSERT_EQ(waitpid(writer.pid(), &state, 0), writer.pid());
      if (WIFSTOPPED(state) && WSTOPSIG(state) == SIGSTOP)
        state = 0;  // through
    }
  }
  EXPECT_GT(copies, 20);
  munmap(seen, mebibyte);
}

}  // namespace
}  // namespace atbus::test
