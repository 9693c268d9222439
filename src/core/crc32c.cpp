#include "core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define ATBUS_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define ATBUS_CRC_TARGET
#endif

namespace atbus::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are read as they lie in memory");

// In this file a checksum is the register of the shift circuit; the stored checksum is its complement.
using crc_register = std::uint32_t;

constexpr crc_register polynomial = 0x82f63b78;  // reflected

template <class Word>
Word load(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// --- by tables ---------------------------------------------------------------------------------

// of[k][b]: the register after byte b and k more bytes of zero, starting from 0.
struct slice_tables {
  crc_register of[8][256];
};

constexpr slice_tables make_slice_tables() noexcept {
  slice_tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    crc_register value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    tables.of[0][byte] = value;
  }
  for (int k = 1; k < 8; ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const crc_register shorter = tables.of[k - 1][byte];
      tables.of[k][byte] = (shorter >> 8) ^ tables.of[0][shorter & 0xff];
    }
  }
  return tables;
}

constexpr slice_tables slices = make_slice_tables();

crc_register table_byte(crc_register state, std::byte next) noexcept {
  return (state >> 8) ^ slices.of[0][(state ^ std::to_integer<std::uint32_t>(next)) & 0xff];
}

crc_register table_word(crc_register state, std::uint64_t next) noexcept {
  next ^= state;
  crc_register sum = 0;
  for (int k = 7; k >= 0; --k, next >>= 8)
    sum ^= slices.of[k][next & 0xff];
  return sum;
}

std::uint32_t extend_by_tables(std::uint32_t crc, const std::byte* data,
                               std::size_t size) noexcept {
  crc_register state = ~crc;
  for (; size >= 8; size -= 8, data += 8)
    state = table_word(state, load<std::uint64_t>(data));
  for (; size != 0; --size, ++data)
    state = table_byte(state, *data);
  return ~state;
}

std::uint32_t frame_by_tables(const std::byte* frame, std::size_t length) noexcept {
  return extend_by_tables(extend_by_tables(0, frame, 4), frame + 8, length);
}

// --- by the processor --------------------------------------------------------------------------

#if defined(ATBUS_CRC_TARGET)

#if defined(__x86_64__)

ATBUS_CRC_TARGET inline std::uint64_t hardware_word(std::uint64_t state,
                                                    std::uint64_t next) noexcept {
  return _mm_crc32_u64(state, next);
}
ATBUS_CRC_TARGET inline std::uint64_t hardware_byte(std::uint64_t state, std::byte next) noexcept {
  return _mm_crc32_u8(static_cast<std::uint32_t>(state), std::to_integer<std::uint8_t>(next));
}

constexpr std::string_view hardware_name = "sse4.2";

bool has_instruction() noexcept {
  return __builtin_cpu_supports("sse4.2") != 0;
}

#else

// As assembly, because compilers disagree on how a single function is allowed the extension.
inline std::uint64_t hardware_word(std::uint64_t state, std::uint64_t next) noexcept {
  auto narrow = static_cast<std::uint32_t>(state);
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(narrow) : "r"(next));
  return narrow;
}
inline std::uint64_t hardware_byte(std::uint64_t state, std::byte next) noexcept {
  auto narrow = static_cast<std::uint32_t>(state);
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
      : "+r"(narrow)
      : "r"(std::to_integer<std::uint32_t>(next)));
  return narrow;
}

constexpr std::string_view hardware_name = "armv8-crc";

bool has_instruction() noexcept {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

#endif

// of[k][b]: the register after one stream's length of zeroes, if its byte k was b and all others 0.
struct shift_tables {
  crc_register of[4][256];
};

template <std::size_t Bytes>
constexpr shift_tables make_shift_tables() noexcept {
  crc_register bit_after[32]{};
  for (int bit = 0; bit < 32; ++bit) {
    crc_register state = crc_register{1} << bit;
    for (std::size_t i = 0; i < Bytes; ++i)
      state = (state >> 8) ^ slices.of[0][state & 0xff];
    bit_after[bit] = state;
  }
  shift_tables tables{};
  for (int k = 0; k < 4; ++k) {
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const std::uint32_t without_lowest = byte & (byte - 1);
      tables.of[k][byte] = tables.of[k][without_lowest] ^ bit_after[8 * k + std::countr_zero(byte)];
    }
  }
  return tables;
}

template <std::size_t Bytes>
constexpr shift_tables shift_by = make_shift_tables<Bytes>();

template <std::size_t Bytes>
std::uint64_t shifted(std::uint64_t state) noexcept {
  const auto& tables = shift_by<Bytes>.of;
  return tables[0][state & 0xff] ^ tables[1][(state >> 8) & 0xff] ^
         tables[2][(state >> 16) & 0xff] ^ tables[3][(state >> 24) & 0xff];
}

// Processes three neighbouring pieces of `Bytes` each, as long as there are so many bytes: each stream hides
// the latency of the others.
template <std::size_t Bytes>
ATBUS_CRC_TARGET std::uint64_t three_streams(std::uint64_t state, const std::byte*& data,
                                             std::size_t& words) noexcept {
  while (words >= 3 * Bytes / 8) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte* const end = data + Bytes; data != end; data += 8) {
      state = hardware_word(state, load<std::uint64_t>(data));
      second = hardware_word(second, load<std::uint64_t>(data + Bytes));
      third = hardware_word(third, load<std::uint64_t>(data + 2 * Bytes));
    }
    state = shifted<Bytes>(shifted<Bytes>(state) ^ second) ^ third;
    data += 2 * Bytes;
    words -= 3 * Bytes / 8;
  }
  return state;
}

constexpr std::size_t long_stream = 1024;
constexpr std::size_t short_stream = 128;

// Not inlined, so that the callers stay small for short inputs.
[[gnu::noinline]] ATBUS_CRC_TARGET std::uint64_t many_words(std::uint64_t state,
                                                            const std::byte* data,
                                                            std::size_t words) noexcept {
  state = three_streams<long_stream>(state, data, words);
  state = three_streams<short_stream>(state, data, words);
  for (; words != 0; --words, data += 8)
    state = hardware_word(state, load<std::uint64_t>(data));
  return state;
}

ATBUS_CRC_TARGET std::uint32_t extend_by_hardware(std::uint32_t crc, const std::byte* data,
                                                  std::size_t size) noexcept {
  std::uint64_t state = many_words(~crc, data, size / 8);
  for (std::size_t i = size & ~std::size_t{7}; i != size; ++i)
    state = hardware_byte(state, data[i]);
  return ~static_cast<std::uint32_t>(state);
}

// The words of a short input. In mixed traffic lengths are random, and a mispredicted branch costs more than
// the work. So up to three words are added without branches, and only the 32-byte steps are a loop
// (measured: doc/design/frame.md). `readable` points to any eight readable bytes.
ATBUS_CRC_TARGET inline std::uint64_t few_words(std::uint64_t state, const std::byte* data,
                                                std::size_t words,
                                                const std::byte* readable) noexcept {
  const std::size_t odd = words & 3;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool there = i < odd;
    const std::byte* const at = there ? data + 8 * i : readable;
    const std::uint64_t next = hardware_word(state, load<std::uint64_t>(at));
    state = there ? next : state;
  }
  data += 8 * odd;
  for (words /= 4; words != 0; --words, data += 32) {
    state = hardware_word(state, load<std::uint64_t>(data));
    state = hardware_word(state, load<std::uint64_t>(data + 8));
    state = hardware_word(state, load<std::uint64_t>(data + 16));
    state = hardware_word(state, load<std::uint64_t>(data + 24));
  }
  return state;
}

// The bytes beyond a multiple of 8 come first, together with the header's word and without a branch. Leading
// zeroes do not change a register of 0, so both are placed at the end of 16 bytes.
ATBUS_CRC_TARGET std::uint32_t frame_by_hardware(const std::byte* frame,
                                                 std::size_t length) noexcept {
  __extension__ using sixteen_bytes = unsigned __int128;
  const std::size_t odd = length & 7;
  const std::uint32_t word = ~load<std::uint32_t>(frame);  // the register starts with all ones
  const auto first = load<std::uint64_t>(length != 0 ? frame + 8 : frame);
  const sixteen_bytes joined = ((sixteen_bytes{first} << 32) | word) << (8 * (12 - odd));
  std::uint64_t state = hardware_word(0, static_cast<std::uint64_t>(joined));
  state = hardware_word(state, static_cast<std::uint64_t>(joined >> 64));

  const std::byte* const data = frame + 8 + odd;
  const std::size_t words = length / 8;
  state = words < 3 * short_stream / 8 ? few_words(state, data, words, frame)
                                       : many_words(state, data, words);
  return ~static_cast<std::uint32_t>(state);
}

#endif

// --- which one ---------------------------------------------------------------------------------

constexpr std::array implementations {
#if defined(ATBUS_CRC_TARGET)
  crc32c_implementation{hardware_name, extend_by_hardware, frame_by_hardware},
#endif
      crc32c_implementation{"table", extend_by_tables, frame_by_tables},
};

std::uint32_t first_frame(const std::byte* frame, std::size_t length) noexcept {
  crc32c_frame_function* const fastest = crc32c_implementations().front().frame;
  crc32c_frame_entry.store(fastest, std::memory_order_relaxed);
  return fastest(frame, length);
}

}  // namespace

constinit std::atomic<crc32c_frame_function*> crc32c_frame_entry{first_frame};

std::span<const crc32c_implementation> crc32c_implementations() noexcept {
  const std::span<const crc32c_implementation> all{implementations};
#if defined(ATBUS_CRC_TARGET)
  static const bool usable = has_instruction();
  if (!usable)
    return all.subspan(1);
#endif
  return all;
}

std::uint32_t crc32c_extend(std::uint32_t crc, bytes_view bytes) noexcept {
  return crc32c_implementations().front().extend(crc, bytes.data(), bytes.size());
}

}  // namespace atbus::detail

#undef ATBUS_CRC_TARGET
