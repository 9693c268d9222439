// Values that tell whether they are whole: each is made of its key's number and of the number of
// the set that made it.
#pragma once

#include <cstring>
#include <random>

#include "cache_store.h"
#include "dice.h"
#include "test.h"

namespace atbus::test {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

inline std::string key_text(std::uint64_t key) {
  return "key " + std::to_string(key);
}

// Random bytes of which values are copies.
inline const std::vector<std::byte>& random_pool() {
  static const std::vector<std::byte> pool = [] {
    std::vector<std::byte> made(std::size_t{8} << 20);
    std::mt19937_64 engine{1};
    for (std::size_t at = 0; at < made.size(); at += 8) {
      const std::uint64_t word = engine();
      std::memcpy(made.data() + at, &word, 8);
    }
    return made;
  }();
  return pool;
}

inline std::vector<std::byte> value_bytes(std::uint64_t key, std::uint64_t version,
                                          std::size_t bytes) {
  const std::uint64_t mixed = ((key << 32) + version + bytes) * 0x9e3779b97f4a7c15;
  const std::size_t from = (mixed >> 20) % (random_pool().size() - bytes);
  std::vector<std::byte> value(bytes);
  std::copy_n(random_pool().data() + from, bytes, value.data());
  return value;
}

// The size of that value.
inline std::size_t size_of(std::uint64_t key, std::uint64_t version, std::size_t bytes_max) {
  const std::uint64_t mixed = (key * 31 + version) * 0x9e3779b97f4a7c15;
  // As many small as large ones: the exponent is uniform.
  const unsigned bits = 1 + static_cast<unsigned>(mixed >> 58) % 23;
  return static_cast<std::size_t>(mixed >> 20) % (std::size_t{1} << bits) % (bytes_max + 1);
}

inline std::vector<std::byte> joined(const cache::value_pieces& value) {
  std::vector<std::byte> bytes(value.size());
  std::size_t filled = 0;
  for (const bytes_view piece : value) {
    EXPECT_FALSE(piece.empty());
    EXPECT_LE(piece.size(), bytes.size() - filled);
    std::copy_n(piece.data(), piece.size(), bytes.data() + filled);
    filled += piece.size();
  }
  EXPECT_EQ(filled, bytes.size());
  return bytes;
}

inline status set_whole(cache::cache_store& store, std::uint64_t key, bytes_view value,
                        std::chrono::milliseconds time_to_live = cache::cache_store::forever) {
  return store.set(as_bytes(key_text(key)), std::array{value}, time_to_live);
}

inline std::optional<std::vector<std::byte>> get_whole(cache::cache_store& store,
                                                       std::uint64_t key) {
  const auto value = store.get(as_bytes(key_text(key)));
  if (!value)
    return std::nullopt;
  return joined(*value);
}

inline std::unique_ptr<cache::cache_store> opened(const cache::store_options& options) {
  auto made = cache::cache_store::open(options);
  EXPECT_TRUE(made) << made.error().text();
  return made ? std::move(*made) : nullptr;
}

}  // namespace atbus::test
