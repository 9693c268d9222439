// The payload of a message of a blob: what stands in front of its bytes.
//
//   0        8      9     12       16      24
//   | number | part | 0   | status | value | bytes
//
// All little endian. `status` is an errc in an end, and 0 elsewhere. What `value` and the bytes are is said at
// each part. doc/design/blobs.md has the rest.
//
// Pure. An unproven peer may have made the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"
#include "atbus/status.hpp"
#include "protocol/message_head.h"

namespace atbus::detail {

// In the head of such a message; with flag_reply it goes from the receiver to the sender.
inline constexpr std::uint8_t flags_blob = flag_command | flag_request;

[[nodiscard]] constexpr bool is_blob(unsigned flags) noexcept {
  return (flags & (exchange_flags & ~flag_reply)) == flags_blob;
}

enum class blob_step : std::uint8_t {
  begin = 1,  // value: the size of the blob; bytes: the note
  chunk,      // value: the position of its first byte; bytes: of the blob, one or more
  grant,      // value: how many bytes were taken; a u64: the position up to which may be sent
  end,        // value: how many bytes were taken; bytes: a text
  query,      // whether the blob is known there
};

struct blob_head {
  std::uint64_t number = 0;
  blob_step step = blob_step::begin;
  errc status = errc::ok;
  std::uint64_t value = 0;
};

inline constexpr std::size_t blob_head_size = 24;
inline constexpr std::size_t blob_grant_size = blob_head_size + 8;
inline constexpr std::size_t blob_text_max = 1024;  // bytes of a note or a text

inline void encode_blob(std::byte* at, const blob_head& head) noexcept {
  store_little_endian(at, head.number);
  store_little_endian(at + 8, std::uint64_t{static_cast<std::uint8_t>(head.step)} |
                                  std::uint64_t{static_cast<std::uint32_t>(head.status)} << 32);
  store_little_endian(at + 16, head.value);
}

// False: it is malformed. A code that this version does not know reads as request_failed.
[[nodiscard]] inline bool decode_blob(bytes_view payload, blob_head& head) noexcept {
  if (payload.size() < blob_head_size)
    return false;
  const auto word = load_little_endian<std::uint64_t>(payload.data() + 8);
  const auto step = static_cast<std::uint32_t>(word);
  const auto code = static_cast<std::uint32_t>(word >> 32);
  if (step < static_cast<std::uint32_t>(blob_step::begin) ||
      step > static_cast<std::uint32_t>(blob_step::query))
    return false;
  head = {load_little_endian<std::uint64_t>(payload.data()), static_cast<blob_step>(step),
          code < errc_count ? static_cast<errc>(code) : errc::request_failed,
          load_little_endian<std::uint64_t>(payload.data() + 16)};
  const std::size_t rest = payload.size() - blob_head_size;
  if (head.step != blob_step::end && code != 0)
    return false;
  switch (head.step) {
    case blob_step::begin:
    case blob_step::end:
      return rest <= blob_text_max;
    case blob_step::chunk:
      return rest != 0;
    case blob_step::grant:
      return payload.size() == blob_grant_size;
    case blob_step::query:
      return rest == 0;
  }
  return false;
}

[[nodiscard]] inline bool is_blob_begin(bytes_view payload) noexcept {
  blob_head head;
  return decode_blob(payload, head) && head.step == blob_step::begin;
}

}  // namespace atbus::detail
