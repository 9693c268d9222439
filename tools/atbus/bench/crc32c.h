// CRC-32C (Castagnoli, as in iSCSI) for the yardsticks; shares nothing with the library's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace atbus::bench {

// True if this processor has an instruction for it.
bool crc32c_in_hardware() noexcept;

namespace detail {

extern const bool has_crc_instruction;

std::uint32_t crc32c_by_table(std::uint32_t state, const std::byte* at,
                              std::size_t length) noexcept;

// One message is three streams from this length on: the instruction takes three cycles and one can
// begin every cycle. Advances `at` and `length` over what it has done.
inline constexpr std::size_t crc_stream_bytes = 128;
std::uint64_t crc32c_by_streams(std::uint64_t state, const std::byte*& at,
                                std::size_t& length) noexcept;

// The instruction itself: assembly, so that it is inlined into code built for every processor of
// its kind. Only where has_crc_instruction.
inline std::uint64_t crc_word(std::uint64_t state, std::uint64_t word) noexcept {
#if defined(__x86_64__)
  asm("crc32q %1, %0" : "+r"(state) : "r"(word));
#elif defined(__aarch64__)
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
#else
  static_cast<void>(word);
#endif
  return state;
}

inline std::uint64_t crc_byte(std::uint64_t state, std::byte value) noexcept {
#if defined(__x86_64__)
  asm("crc32b %b1, %k0" : "+r"(state) : "r"(static_cast<std::uint32_t>(value)));
#elif defined(__aarch64__)
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
      : "+r"(state)
      : "r"(static_cast<std::uint32_t>(value)));
#else
  static_cast<void>(value);
#endif
  return state;
}

}  // namespace detail

// Takes further bytes into a checksum that began as `crc32c_start` and ends with crc32c_end().
inline constexpr std::uint32_t crc32c_start = ~std::uint32_t{0};

inline std::uint32_t crc32c_add(std::uint32_t before, const std::byte* at,
                                std::size_t length) noexcept {
  if (!detail::has_crc_instruction) [[unlikely]] {
    return detail::crc32c_by_table(before, at, length);
  }
  std::uint64_t state = before;
  if (length >= 3 * detail::crc_stream_bytes) {
    state = detail::crc32c_by_streams(state, at, length);
  }
  std::size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, at + i, sizeof word);
    state = detail::crc_word(state, word);
  }
  for (; i != length; ++i) {
    state = detail::crc_byte(state, at[i]);
  }
  return static_cast<std::uint32_t>(state);
}

constexpr std::uint32_t crc32c_end(std::uint32_t state) noexcept {
  return ~state;
}

}  // namespace atbus::bench
