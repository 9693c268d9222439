#include "atbus/bench/crc32c.h"

#include <array>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace atbus::bench {
namespace {

constexpr std::uint32_t reflected_polynomial = 0x82f63b78;

using byte_table = std::array<std::uint32_t, 256>;

constexpr byte_table make_byte_table() noexcept {
  byte_table table{};
  for (std::uint32_t i = 0; i != 256; ++i) {
    std::uint32_t state = i;
    for (int bit = 0; bit != 8; ++bit) {
      state = (state >> 1) ^ ((state & 1) != 0 ? reflected_polynomial : 0);
    }
    table[i] = state;
  }
  return table;
}

constexpr byte_table table_of_bytes = make_byte_table();

constexpr std::uint32_t add_byte(std::uint32_t state, std::uint8_t value) noexcept {
  return (state >> 8) ^ table_of_bytes[(state ^ value) & 0xff];
}

// What so many zero bytes make of a state, by the state's four bytes. The map is linear, so that
// the streams of one message can be computed apart and joined (Mark Adler, crc32c.c, 2013).
using zeros_table = std::array<byte_table, 4>;

constexpr zeros_table make_zeros_table(std::size_t zeros) noexcept {
  zeros_table table{};
  for (unsigned bit = 0; bit != 32; ++bit) {
    std::uint32_t state = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i != zeros; ++i) {
      state = add_byte(state, 0);
    }
    for (std::uint32_t value = 0; value != 256; ++value) {
      if ((value >> (bit % 8) & 1) != 0) {
        table[bit / 8][value] ^= state;
      }
    }
  }
  return table;
}

constexpr std::size_t long_stream_bytes = 8 * detail::crc_stream_bytes;
constexpr zeros_table after_short_stream = make_zeros_table(detail::crc_stream_bytes);
constexpr zeros_table after_long_stream = make_zeros_table(long_stream_bytes);

std::uint64_t add_zeros(const zeros_table& table, std::uint64_t state) noexcept {
  return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^ table[2][state >> 16 & 0xff] ^
         table[3][state >> 24 & 0xff];
}

std::uint64_t word_at(const std::byte* at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <std::size_t StreamBytes>
std::uint64_t add_streams(const zeros_table& after, std::uint64_t state, const std::byte*& at,
                          std::size_t& length) noexcept {
  while (length >= 3 * StreamBytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte* const end = at + StreamBytes; at != end; at += 8) {
      state = detail::crc_word(state, word_at(at));
      second = detail::crc_word(second, word_at(at + StreamBytes));
      third = detail::crc_word(third, word_at(at + 2 * StreamBytes));
    }
    state = add_zeros(after, add_zeros(after, state) ^ second) ^ third;
    at += 2 * StreamBytes;
    length -= 3 * StreamBytes;
  }
  return state;
}

bool find_crc_instruction() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return false;
#endif
}

}  // namespace

const bool detail::has_crc_instruction = find_crc_instruction();

bool crc32c_in_hardware() noexcept {
  return detail::has_crc_instruction;
}

std::uint32_t detail::crc32c_by_table(std::uint32_t state, const std::byte* at,
                                      std::size_t length) noexcept {
  for (std::size_t i = 0; i != length; ++i) {
    state = add_byte(state, static_cast<std::uint8_t>(at[i]));
  }
  return state;
}

std::uint64_t detail::crc32c_by_streams(std::uint64_t state, const std::byte*& at,
                                        std::size_t& length) noexcept {
  state = add_streams<long_stream_bytes>(after_long_stream, state, at, length);
  return add_streams<crc_stream_bytes>(after_short_stream, state, at, length);
}

}  // namespace atbus::bench
