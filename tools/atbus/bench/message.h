// What the benchmarks send: lengths and contents that both sides derive from a message's first
// word, so that a lost, reordered or damaged message can't pass for a good one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace atbus::bench {

enum class check_kind : std::uint8_t { full, sequence, none };

// The first word of a message: who sent it and the how manyeth it is. Numbers start at 0.
inline constexpr unsigned number_bits = 48;
inline constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;

constexpr std::uint64_t first_word(std::uint64_t sender, std::uint64_t number) noexcept {
  return sender << number_bits | number;
}

// How long the messages of a run are: 8 x uniform 1..units, or one fixed size. The length follows
// from the first word alone, so either side gets it in any order, and consecutive ones do not wait
// for each other: about a nanosecond.
class message_lengths {
 public:
  static constexpr message_lengths uniform(std::uint32_t units) noexcept { return {8, units}; }
  static constexpr message_lengths fixed(std::uint64_t size) noexcept { return {size, 0}; }

  constexpr std::uint64_t of(std::uint64_t word) const noexcept {
    // Two multiplications by odd constants with a shift between mix all bits into the high half
    // (the construction of splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
    // generators", OOPSLA 2014); the last line scales it to 0..units-1.
    std::uint64_t x = (word + 1) * 0x9e3779b97f4a7c15U;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9U;
    return base_ + 8 * ((x >> 32) * units_ >> 32);
  }

  constexpr std::uint64_t shortest() const noexcept { return base_; }
  constexpr std::uint64_t longest() const noexcept {
    return units_ == 0 ? base_ : base_ + 8 * (units_ - 1);
  }

 private:
  constexpr message_lengths(std::uint64_t base, std::uint64_t units) noexcept
      : base_{base}, units_{units} {}

  std::uint64_t base_;
  std::uint64_t units_;
};

namespace detail {

// Word i of a message is its first word plus i steps, each byte of which differs from its
// neighbours. Two words at a time, because every 64-bit machine has registers for two.
inline constexpr std::uint64_t word_step = 0xd6e8feb86659fd93U;
using word_pair = std::uint64_t __attribute__((vector_size(16)));

}  // namespace detail

inline std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

namespace detail {

[[gnu::always_inline]] inline void fill_here(std::uint64_t word, std::byte* at,
                                             std::size_t length) noexcept {
  detail::word_pair pair{word, word + detail::word_step};
  std::size_t i = 0;
  for (; i + sizeof pair <= length; i += sizeof pair) {
    std::memcpy(at + i, &pair, sizeof pair);
    pair += 2 * detail::word_step;
  }
  if ((length & 8) != 0) {
    const std::uint64_t next = pair[0];
    std::memcpy(at + i, &next, sizeof next);
    i += sizeof next;
    pair += detail::word_step;
  }
  if (i != length) {
    const std::uint64_t next = pair[0];
    std::memcpy(at + i, &next, length - i);
  }
}

[[gnu::always_inline]] inline bool intact_here(std::uint64_t word, const std::byte* at,
                                               std::size_t length) noexcept {
  detail::word_pair pair{word, word + detail::word_step};
  detail::word_pair difference{0, 0};
  std::size_t i = 0;
  for (; i + sizeof pair <= length; i += sizeof pair) {
    detail::word_pair found;
    std::memcpy(&found, at + i, sizeof found);
    difference |= found ^ pair;
    pair += 2 * detail::word_step;
  }
  std::uint64_t rest = 0;
  if ((length & 8) != 0) {
    const std::uint64_t expected = pair[0];
    rest = load_word(at + i) ^ expected;
    i += 8;
    pair += detail::word_step;
  }
  if (i != length) {
    const std::uint64_t expected = pair[0];
    std::uint64_t found = expected;
    std::memcpy(&found, at + i, length - i);
    rest |= found ^ expected;
  }
  return (difference[0] | difference[1] | rest) == 0;
}

// Where a short loop happens to lie in a program makes it up to a half slower. What has much to do in
// one goes in blocks, without a loop, and is the same function for all that is compared.
inline constexpr std::size_t block_bytes = 64;
inline constexpr std::uint64_t block_step = block_bytes / 8 * word_step;
inline constexpr std::size_t inlined_bytes = 512;

[[gnu::noinline]] inline void fill_blocks(std::uint64_t word, std::byte* at,
                                          std::size_t length) noexcept {
  for (; length > block_bytes; length -= block_bytes) {
    fill_here(word, at, block_bytes);
    at += block_bytes;
    word += block_step;
  }
  fill_here(word, at, length);
}

[[gnu::noinline]] inline bool intact_blocks(std::uint64_t word, const std::byte* at,
                                            std::size_t length) noexcept {
  bool intact = true;
  for (; length > block_bytes; length -= block_bytes) {
    intact &= intact_here(word, at, block_bytes);
    at += block_bytes;
    word += block_step;
  }
  return intact_here(word, at, length) && intact;
}

}  // namespace detail

// Writes every byte of a message.
inline void fill(std::uint64_t word, std::byte* at, std::size_t length) noexcept {
  if (length > detail::inlined_bytes)
    return detail::fill_blocks(word, at, length);
  detail::fill_here(word, at, length);
}

// Compares every byte of a message with what fill() wrote.
inline bool intact(std::uint64_t word, const std::byte* at, std::size_t length) noexcept {
  return length > detail::inlined_bytes ? detail::intact_blocks(word, at, length)
                                        : detail::intact_here(word, at, length);
}

}  // namespace atbus::bench
