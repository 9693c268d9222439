// A frame: one message on a stream, or a few words between the two ends of it.
//
//    0                  4                  8                    8 + length    next multiple of 8
//   | word              | CRC-32C, or 0    | payload             | zeroes      |
//   | length, bit, kind | word and payload | 8-byte aligned      | not covered |
//
// A bit in each frame tells whether it is checked, that is, carries a checksum. All numbers are little
// endian. doc/design/frame.md is the reference: it shows the bytes of an example, and what a receiver does
// about each violation. This header has only what a sender's hot path needs.
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

// The most that a frame can carry. Each end announces a limit of its own, which is at most this.
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

// The length of a data frame, if its checked bit is `checked`; for every other header a number above all
// limits. The test covers all bits above the length: the kind, the checked bit, and the checksum, which is
// 0 in an unchecked frame.
[[nodiscard]] constexpr std::uint64_t data_frame_length(std::uint64_t header,
                                                        bool checked) noexcept {
  return checked ? static_cast<std::uint32_t>(header) ^ frame_checked_bit : header;
}

// Consecutive data frames of one stream, all checked or all unchecked. The run ends before another kind of
// frame or an incomplete one.
struct frame_run {
  const std::byte* at = nullptr;  // the next one
  const std::byte* end = nullptr;
  std::uint64_t limit = 0;  // of a payload
  bool checked = false;

  // Whether another complete frame follows; `length` becomes the size of its payload.
  [[nodiscard]] bool has_next(std::uint64_t& length) const noexcept {
    return checked ? has_next<true>(length) : has_next<false>(length);
  }
  // As above, for a caller that knows whether the frames are checked.
  template <bool Checked>
  [[nodiscard]] bool has_next(std::uint64_t& length) const noexcept {
    const auto left = static_cast<std::size_t>(end - at);
    if (left < frame_header_size)
      return false;
    length = data_frame_length(load_frame_header(at), Checked);
    return length <= limit && frame_size(length) <= left;
  }
};

// Writes header and padding of an unchecked frame into `frame_size(length)` bytes at `at`. Returns where
// the payload goes. The padding is written first and without a branch, so that no byte of older memory is
// sent.
inline std::byte* begin_frame(std::byte* at, frame_kind kind, std::size_t length) noexcept {
  assert(length <= frame_payload_max);
  store_little_endian<std::uint64_t>(at + frame_size(length) - 8, 0);
  store_little_endian<std::uint64_t>(at, make_frame_word(kind, length));
  return at + frame_header_size;
}

// Shortens the payload of a frame, whose bytes stay in place. Returns the new size of the frame.
ATBUS_API std::size_t shorten_frame(std::byte* at, std::size_t length) noexcept;

// Turns a complete frame into a checked one: sets the bit and fills in the checksum.
ATBUS_API void seal_frame(std::byte* at) noexcept;
// Whether a complete frame carries the right checksum, or none.
ATBUS_API bool checksum_holds(const std::byte* at) noexcept;

}  // namespace atbus::detail
