// A frame: one message on a stream, or a few words between the two ends of it.
//
//    0                  4                  8                    8 + length    next multiple of 8
//   | word              | CRC-32C, or 0    | payload             | zeroes      |
//   | length, bit, kind | word and payload | 8-byte aligned      | not covered |
//
// Each frame says by a bit whether it is checked, that is, carries a checksum. All numbers are
// little endian. doc/design/frame.md is the reference: the bytes with an example, and what a
// receiver does about each violation. Here is what a sender's hot path needs of it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "atbus/detail/export.hpp"
#include "atbus/detail/little_endian.hpp"

namespace atbus::detail {

enum class frame_kind : std::uint8_t {
  data = 0,     // the user's bytes
  control = 1,  // see control_type
};

inline constexpr std::size_t frame_header_size = 8;
inline constexpr std::size_t frame_alignment = 8;

// What a frame can carry at most; each end announces a limit of its own that is at most this.
inline constexpr std::uint32_t frame_payload_max = std::uint32_t{64} << 20;
inline constexpr std::uint32_t control_payload_max = 256;

// The first word: the length in the low 27 bits, then whether it is checked, then the kind.
inline constexpr std::uint32_t frame_length_mask = (std::uint32_t{1} << 27) - 1;
inline constexpr std::uint32_t frame_checked_bit = std::uint32_t{1} << 27;
inline constexpr unsigned frame_kind_shift = 28;
static_assert(frame_payload_max <= frame_length_mask);

[[nodiscard]] constexpr std::uint32_t make_frame_word(frame_kind kind,
                                                      std::size_t length) noexcept {
  return static_cast<std::uint32_t>(kind) << frame_kind_shift | static_cast<std::uint32_t>(length);
}
[[nodiscard]] constexpr std::size_t frame_length(std::uint32_t word) noexcept {
  return word & frame_length_mask;
}
[[nodiscard]] constexpr bool is_checked(std::uint32_t word) noexcept {
  return (word & frame_checked_bit) != 0;
}
// Bytes on the stream of a frame with this payload length: header, payload, padding.
[[nodiscard]] constexpr std::size_t frame_size(std::size_t length) noexcept {
  return (length + frame_header_size + frame_alignment - 1) & ~(frame_alignment - 1);
}

// Both words: the first one in the low half, the checksum in the high half.
[[nodiscard]] inline std::uint64_t load_frame_header(const std::byte* at) noexcept {
  return load_little_endian<std::uint64_t>(at);
}

// The length of a data frame that is checked, or is not, as expected; for every other header a number
// above all limits. What is looked at lies above the length: the kind and the checked bit, and the
// checksum, which is 0 in an unchecked frame.
[[nodiscard]] constexpr std::uint64_t data_frame_length(std::uint64_t header,
                                                        bool checked) noexcept {
  return checked ? static_cast<std::uint32_t>(header) ^ frame_checked_bit : header;
}

// Data frames of one stream, all checked or all unchecked, that lie one behind the other; they end
// where something else follows, or something that is not complete.
struct frame_run {
  const std::byte* at = nullptr;  // the next one
  const std::byte* end = nullptr;
  std::uint64_t limit = 0;  // of a payload
  bool checked = false;

  // The next one is here, its payload `length` bytes.
  [[nodiscard]] bool has_next(std::uint64_t& length) const noexcept {
    return checked ? has_next<true>(length) : has_next<false>(length);
  }
  // The same, for who knows whether it is checked.
  template <bool Checked>
  [[nodiscard]] bool has_next(std::uint64_t& length) const noexcept {
    const auto left = static_cast<std::size_t>(end - at);
    if (left < frame_header_size)
      return false;
    length = data_frame_length(load_frame_header(at), Checked);
    return length <= limit && frame_size(length) <= left;
  }
};

// Begins an unchecked frame in `frame_size(length)` bytes at `at`: header and padding.
// Returns where the payload goes. The padding comes first, so that not a byte of older memory
// leaves with it, and no branch asks whether there is any.
inline std::byte* begin_frame(std::byte* at, frame_kind kind, std::size_t length) noexcept {
  assert(length <= frame_payload_max);
  store_little_endian<std::uint64_t>(at + frame_size(length) - 8, 0);
  store_little_endian<std::uint64_t>(at, make_frame_word(kind, length));
  return at + frame_header_size;
}

// Makes a begun frame, its payload in place, shorter than it was begun. Returns its new size.
ATBUS_API std::size_t shorten_frame(std::byte* at, std::size_t length) noexcept;

// Makes one complete frame a checked one: sets the bit and fills in the checksum.
ATBUS_API void seal_frame(std::byte* at) noexcept;
// Whether a frame that is complete carries the right checksum, or none.
ATBUS_API bool checksum_holds(const std::byte* at) noexcept;

}  // namespace atbus::detail
