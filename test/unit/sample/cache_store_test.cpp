// The store of sample/cache in anonymous memory.
#include "cache_values.h"

namespace atbus::test {
namespace {

TEST(CacheStore, ReturnsWhatWasSet) {
  const auto store = opened({.memory_bytes = mebibyte});
  EXPECT_FALSE(get_whole(*store, 1));
  for (const std::size_t bytes : {0, 1, 7, 8, 9, 63, 64, 65, 1000, 100'000}) {
    const auto value = value_bytes(1, 0, bytes);
    ASSERT_TRUE(set_whole(*store, 1, value));
    EXPECT_EQ(get_whole(*store, 1), value);
  }
  EXPECT_EQ(store->stats().items, 1U);
  EXPECT_TRUE(store->erase(as_bytes(key_text(1))));
  EXPECT_FALSE(store->erase(as_bytes(key_text(1))));
  EXPECT_FALSE(get_whole(*store, 1));
  EXPECT_EQ(store->stats().items, 0U);
  EXPECT_EQ(store->stats().item_bytes, 0U);
}

TEST(CacheStore, JoinsThePiecesOfASet) {
  const auto store = opened({.memory_bytes = mebibyte});
  const auto value = value_bytes(1, 0, 1000);
  const bytes_view whole{value};
  const std::array pieces{whole.first(1), whole.subspan(1, 0), whole.subspan(1, 499),
                          whole.subspan(500)};
  ASSERT_TRUE(store->set(as_bytes(key_text(1)), pieces));
  EXPECT_EQ(get_whole(*store, 1), value);
  ASSERT_TRUE(store->set(as_bytes(key_text(1)), {}));
  EXPECT_EQ(get_whole(*store, 1), std::vector<std::byte>{});
}

TEST(CacheStore, KeysMayHoldAnyBytesUpToTheLimit) {
  const auto store = opened({.memory_bytes = mebibyte});
  const std::string longest(cache::cache_store::key_bytes_max, '\0');
  const std::string shorter = longest.substr(1);
  ASSERT_TRUE(store->set(as_bytes(longest), std::array{as_bytes("long")}));
  ASSERT_TRUE(store->set(as_bytes(shorter), std::array{as_bytes("short")}));
  EXPECT_EQ(as_text(joined(*store->get(as_bytes(longest)))), "long");
  EXPECT_EQ(as_text(joined(*store->get(as_bytes(shorter)))), "short");
  EXPECT_EQ(store->set(as_bytes(longest + "x"), {}), errc::invalid_name);
  EXPECT_EQ(store->set({}, {}), errc::invalid_name);
  EXPECT_EQ(store->reserve({}, 1).error().code(), errc::invalid_name);
}

// A value may have vanished, but is never one that was not the last to be set.
class CacheModel : public ::testing::Test {
 protected:
  void run(std::size_t memory_bytes, std::size_t bytes_max, std::uint64_t keys, int steps) {
    store_ = opened({.memory_bytes = memory_bytes, .clock = &clock_});
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t key = dice_.below(keys);
      const std::uint64_t action = dice_.below(100);
      if (action < 50) {
        check(key);
      } else if (action < 90) {
        set(key, size_of(key, ++version_, bytes_max), action < 60);
      } else if (action < 95) {
        store_->erase(as_bytes(key_text(key)));
        model_.erase(key);
      } else if (action < 97) {
        clock_.advance(100ms);
      } else {
        reserve(key, size_of(key, ++version_, bytes_max));
      }
    }
    for (std::uint64_t key = 0; key < keys; ++key)
      check(key);
    EXPECT_GT(hits_, steps / 10);
  }

  struct entry {
    std::uint64_t version;
    std::size_t bytes;
    std::chrono::nanoseconds end;
  };

  void set(std::uint64_t key, std::size_t bytes, bool expires) {
    const auto time_to_live = expires ? 300ms : cache::cache_store::forever;
    const auto value = value_bytes(key, version_, bytes);
    const status done = set_whole(*store_, key, value, time_to_live);
    if (done == errc::message_too_large) {
      EXPECT_GT(bytes + key_text(key).size(), store_->item_bytes_max());
      return;
    }
    ASSERT_TRUE(done) << done.text();
    EXPECT_EQ(get_whole(*store_, key), value);
    model_[key] = {version_, bytes, expires ? clock_.now() + 300ms : std::chrono::hours{1'000'000}};
  }

  void reserve(std::uint64_t key, std::size_t bytes) {
    auto room = store_->reserve(as_bytes(key_text(key)), bytes);
    if (!room) {
      EXPECT_EQ(room.error().code(), errc::message_too_large);
      return;
    }
    const auto value = value_bytes(key, version_, bytes);
    std::size_t filled = 0;
    for (const mutable_bytes piece : room->pieces()) {
      std::memcpy(piece.data(), value.data() + filled, piece.size());
      filled += piece.size();
    }
    EXPECT_EQ(filled, bytes);
    check(key);
    if (dice_.one_in(2))
      return;  // gives it back
    store_->commit(std::move(*room));
    model_[key] = {version_, bytes, std::chrono::hours{1'000'000}};
    EXPECT_EQ(get_whole(*store_, key), value);
  }

  void check(std::uint64_t key) {
    const auto found = get_whole(*store_, key);
    if (!found)
      return;
    ++hits_;
    ASSERT_TRUE(model_.contains(key));
    const entry& expected = model_[key];
    EXPECT_GT(expected.end, clock_.now());
    EXPECT_EQ(*found, value_bytes(key, expected.version, expected.bytes));
  }

  manual_clock clock_{1h};
  dice dice_{7};
  std::unique_ptr<cache::cache_store> store_;
  std::map<std::uint64_t, entry> model_;
  std::uint64_t version_ = 0;
  int hits_ = 0;
};

TEST_F(CacheModel, OfSmallValues) {
  run(mebibyte, 200, 20'000, 40'000);
}

TEST_F(CacheModel, OfSmallAndLargeValues) {
  run(8 * mebibyte, 6 * mebibyte, 1000, 1000);
}

TEST_F(CacheModel, OfFewKeysThatAreOftenReplaced) {
  run(mebibyte, 100'000, 10, 4000);
}

// From items that are small and many to large and few, and back: the index and free space follow.
TEST_F(CacheModel, OfSizesThatChange) {
  for (const std::size_t bytes_max : {100, 200'000, 100}) {
    store_ = store_ ? std::move(store_) : opened({.memory_bytes = 2 * mebibyte, .clock = &clock_});
    for (std::uint64_t i = 0; i < (bytes_max == 100 ? 15'000 : 200); ++i) {
      ++version_;
      set(i, bytes_max == 100 ? 50 + i % 50 : bytes_max, false);
    }
    const cache::store_stats now = store_->stats();
    if (bytes_max == 100) {
      EXPECT_GT(now.items, 10'000U);
    } else {
      EXPECT_GT(now.item_bytes, now.memory_bytes / 2);  // whole values of a tenth each
      EXPECT_LT(now.index_bytes, now.memory_bytes / 10);
    }
  }
}

TEST(CacheStore, RefusesAValueThatCanNeverFit) {
  const auto store = opened({.memory_bytes = mebibyte});
  const std::size_t limit = store->item_bytes_max() - key_text(1).size();
  EXPECT_GT(limit, mebibyte * 4 / 10);
  const auto value = value_bytes(1, 0, limit + 1);
  const status refused = set_whole(*store, 1, value);
  EXPECT_EQ(refused, errc::message_too_large);
  EXPECT_EQ(refused.fact(0), limit + 1 + key_text(1).size());
  EXPECT_EQ(refused.fact(1), store->item_bytes_max());
  EXPECT_EQ(store->reserve(as_bytes(key_text(1)), std::size_t{0} - 1).error().code(),
            errc::message_too_large);
  // One that fits just so fits always.
  for (std::uint64_t i = 0; i < 10'000; ++i)
    ASSERT_TRUE(set_whole(*store, i, value_bytes(i, 0, 50)));
  ASSERT_TRUE(set_whole(*store, 1, bytes_view{value}.first(limit)));
  EXPECT_EQ(get_whole(*store, 1)->size(), limit);
}

TEST(CacheStore, ExpiresByTheClock) {
  manual_clock clock{1h};
  const auto store = opened({.memory_bytes = mebibyte, .clock = &clock});
  const auto value = value_bytes(1, 0, 10);
  for (std::uint64_t key = 0; key < 100; ++key)
    ASSERT_TRUE(set_whole(*store, key, value, key < 50 ? 2ms : 3ms));
  EXPECT_EQ(set_whole(*store, 1, value, 0ms), errc::invalid_argument);
  EXPECT_EQ(set_whole(*store, 1, value, -1ms), errc::invalid_argument);
  clock.advance(1999us);
  EXPECT_TRUE(get_whole(*store, 1));
  clock.advance(1us);
  EXPECT_FALSE(get_whole(*store, 1));
  EXPECT_FALSE(store->erase(as_bytes(key_text(1))));
  EXPECT_TRUE(get_whole(*store, 51));
  store->sweep(1000);
  EXPECT_EQ(store->stats().items, 50U);
  EXPECT_EQ(store->stats().expired, 50U);
  ASSERT_TRUE(set_whole(*store, 51, value));  // now without an end
  clock.advance(1000h);
  EXPECT_TRUE(get_whole(*store, 51));
  EXPECT_FALSE(get_whole(*store, 52));
}

TEST(CacheStore, SetsSweepWhatHasExpired) {
  manual_clock clock;
  const auto store = opened({.memory_bytes = mebibyte, .clock = &clock});
  for (std::uint64_t key = 0; key < 1000; ++key)
    ASSERT_TRUE(set_whole(*store, key, {}, 1ms));
  clock.advance(1ms);
  for (int i = 0; i < 10'000; ++i)
    ASSERT_TRUE(set_whole(*store, 0, {}));
  EXPECT_EQ(store->stats().items, 1U);
}

TEST(CacheStore, AReservationIsNoItemBeforeItsCommit) {
  const auto store = opened({.memory_bytes = mebibyte});
  const auto old = value_bytes(1, 0, 100);
  ASSERT_TRUE(set_whole(*store, 1, old));
  auto room = store->reserve(as_bytes(key_text(1)), 300'000);
  ASSERT_TRUE(room);
  EXPECT_EQ(get_whole(*store, 1), old);
  const std::size_t free_bytes = store->stats().free_bytes;
  {
    auto other = store->reserve(as_bytes(key_text(2)), 300'000);
    ASSERT_TRUE(other);
    EXPECT_LT(store->stats().free_bytes, free_bytes - 300'000);
    // What they hold is not evicted for others.
    EXPECT_EQ(store->reserve(as_bytes(key_text(3)), 500'000).error().code(), errc::no_space);
  }
  EXPECT_GE(store->stats().free_bytes, free_bytes);
  store->commit(std::move(*room));
  EXPECT_EQ(store->get(as_bytes(key_text(1)))->size(), 300'000U);
  EXPECT_EQ(store->stats().items, 1U);
}

// Every byte that is in no item and not in the index is free, whatever was set, replaced and
// evicted.
TEST(CacheStore, LosesNoMemory) {
  const auto store = opened({.memory_bytes = 2 * mebibyte});
  const std::size_t free_at_first = store->stats().free_bytes;
  const auto value = value_bytes(0, 0, 200'000);
  for (std::uint64_t i = 0; i < 20'000; ++i)
    ASSERT_TRUE(set_whole(*store, i, bytes_view{value}.first(size_of(i, 0, value.size()))));
  EXPECT_GT(store->stats().evictions, 0U);
  EXPECT_LT(store->stats().free_bytes, store->stats().memory_bytes / 8);
  for (std::uint64_t i = 0; i < 20'000; ++i)
    store->erase(as_bytes(key_text(i)));
  const cache::store_stats now = store->stats();
  EXPECT_EQ(now.items, 0U);
  EXPECT_EQ(now.free_bytes + now.index_bytes, free_at_first + 4160);
}

// What is asked for often stays while thousands pass by, small and smaller.
TEST(CacheStore, KeepsWhatIsUsed) {
  constexpr std::uint64_t used = 1500;
  const auto store = opened({.memory_bytes = mebibyte});
  const auto value = value_bytes(0, 0, 1000);
  const auto set = [&](std::uint64_t key) {
    ASSERT_TRUE(set_whole(*store, key, bytes_view{value}.first(20 + key * 37 % 300)));
  };
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t key = 0; key < used; ++key) {
      if (!get_whole(*store, key))
        set(key);
    }
  }
  for (std::uint64_t key = used; key < 20 * used; ++key)
    set(key);
  std::uint64_t kept = 0;
  for (std::uint64_t key = 0; key < used; ++key)
    kept += get_whole(*store, key) ? 1 : 0;
  EXPECT_GT(kept, used * 8 / 10);
}

TEST(CacheStore, SaysWhichOptionIsWrong) {
  EXPECT_EQ(cache::cache_store::open({.memory_bytes = mebibyte - 1}).error().code(),
            errc::invalid_argument);
  const auto refused = cache::cache_store::open({.memory_bytes = 1ULL << 50});
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().text().find("1 MiB to 32 GiB"), std::string::npos);
}

}  // namespace
}  // namespace atbus::test
