// How senders write a message where it leaves from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atbus/bench/message.h"

namespace atbus::bench {

// Up to this size a loop over words beats memcpy, whose wide loads stall when they span several
// narrower stores that are still on their way to the cache.
inline constexpr std::uint64_t copied_by_words = 512;

inline void copy_message(std::byte* to, const std::byte* from, std::uint64_t length) noexcept {
  if (length > copied_by_words || length % 8 != 0) {
    std::memcpy(to, from, length);
    return;
  }
  for (std::uint64_t i = 0; i != length; i += 8) {
    std::uint64_t word = load_word(from + i);
    asm volatile("" : "+r"(word));  // or the compiler makes it a memcpy again
    std::memcpy(to + i, &word, sizeof word);
  }
}

// As much of it as the receiver checks.
template <check_kind Check>
void write_message(std::uint64_t word, std::byte* at, std::uint64_t length) noexcept {
  if constexpr (Check == check_kind::full) {
    fill(word, at, length);
  } else if constexpr (Check == check_kind::sequence) {
    std::memcpy(at, &word, sizeof word);
  }
}

}  // namespace atbus::bench
