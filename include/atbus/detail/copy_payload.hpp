// The one copy of a copying send.
//
// A sender often writes a message just before it sends it. A wide load that spans several narrower stores
// waits until all of them have reached the cache. So small payloads are read word by word. They are written
// two words at a time, because each pending store takes an entry of the store buffer while the lane's cache
// lines arrive from another core. Above `copied_by_words` memcpy is faster. Figures:
// doc/design/segment.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace atbus::detail {

inline constexpr std::size_t copied_by_words = 256;

inline std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  asm("" : "+r"(word));  // keeps the compiler from joining two loads into a wide one
  return word;
}

// `to` is 8-byte aligned and has room for `length` rounded up to a multiple of 8.
inline void copy_payload(std::byte* to, const std::byte* from, std::size_t length) noexcept {
  if (length > copied_by_words) {
    std::memcpy(to, from, length);
    return;
  }
  std::size_t at = 0;
  for (; at + 16 <= length; at += 16) {
    using word_pair = std::uint64_t __attribute__((vector_size(16)));
    const word_pair pair{load_word(from + at), load_word(from + at + 8)};
    std::memcpy(to + at, &pair, sizeof pair);
  }
  if ((length & 8) != 0) {
    const std::uint64_t word = load_word(from + at);
    std::memcpy(to + at, &word, sizeof word);
    at += 8;
  }
  for (; at < length; ++at)
    to[at] = from[at];
}

}  // namespace atbus::detail
