// The hash of keys and the checksum of items: 128-bit products folded to 64 bits, the construction
// of wyhash and of Abseil's hash. `seed` is secret, so that clients can't choose keys that collide
// or values that look like items. It detects damage; it is no signature.
#pragma once

#include <atbus/bytes.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cache {

inline std::uint64_t folded_product(std::uint64_t left, std::uint64_t right) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = wide{left} * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(atbus::bytes_view bytes, std::uint64_t seed) noexcept {
  constexpr std::uint64_t odd[] = {0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f,
                                   0xe7037ed1a0b428db};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto word = [&](std::size_t index) {
    std::uint64_t loaded;
    std::memcpy(&loaded, at + 8 * index, sizeof loaded);
    return loaded;
  };
  std::uint64_t state = folded_product(seed ^ odd[0], bytes.size() ^ odd[1]);
  if (left >= 64) {
    // Four independent products hide the latency of each other.
    std::uint64_t lane[] = {state, state ^ odd[1], state ^ odd[2], state ^ odd[3]};
    for (; left >= 64; left -= 64, at += 64) {
      for (std::size_t i = 0; i < 4; ++i)
        lane[i] = folded_product(word(2 * i) ^ odd[i], word(2 * i + 1) ^ lane[i]);
    }
    state = folded_product(lane[0] ^ odd[2], lane[1]) ^ folded_product(lane[2] ^ odd[3], lane[3]);
  }
  for (; left >= 16; left -= 16, at += 16)
    state = folded_product(word(0) ^ odd[1], word(1) ^ state);
  std::uint64_t rest[2] = {};
  if (left > 0)
    std::memcpy(rest, at, left);
  state = folded_product(rest[0] ^ odd[2], rest[1] ^ state);
  return folded_product(state ^ odd[3], odd[0]);
}

}  // namespace cache
