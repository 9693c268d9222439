// The head of an entry of a recording: of a copy that a tapped node makes, and of each packet in a file of
// `atbus record`.
//
//   0          3         4      5       6          8               10              12
//   | "atb"    | version | kind | flags | reserved | part          | parts         | type            |
//   16                   24                 32                     40                     48
//   | from               | to               | number               | count                | payload
//
// All little endian. doc/design/record.md says what each kind has in them.
//
// Pure. Any process may have made the bytes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"
#include "protocol/message_head.h"

namespace atbus::detail {

enum class entry_kind : std::uint8_t { begin = 1, message, lost, end };

// Why a record ends.
enum class recording_end : std::uint32_t { asked, node_closed, node_gone, not_written };

// What a message may have: as in its message_head.
inline constexpr std::uint8_t entry_flags = flag_redelivered | command_flags | flag_request;

struct recording_entry {
  entry_kind kind = entry_kind::message;
  std::uint8_t flags = 0;
  std::uint16_t part = 0;  // of a message longer than a packet; from 0
  std::uint16_t parts = 1;
  std::uint32_t type = 0;
  bus_id from{};
  bus_id to{};
  std::uint64_t number = 0;
  std::uint64_t count = 0;

  friend bool operator==(const recording_entry&, const recording_entry&) = default;
};
inline constexpr std::size_t recording_entry_size = 48;
inline constexpr std::uint8_t recording_version = 1;

inline void encode(const recording_entry& head, std::byte* to) noexcept {
  std::memcpy(to, "atb", 3);
  store_little_endian(to + 3, recording_version);
  store_little_endian(to + 4, head.kind);
  store_little_endian(to + 5, head.flags);
  store_little_endian(to + 6, std::uint16_t{0});
  store_little_endian(to + 8, head.part);
  store_little_endian(to + 10, head.parts);
  store_little_endian(to + 12, head.type);
  store_little_endian(to + 16, head.from.value());
  store_little_endian(to + 24, head.to.value());
  store_little_endian(to + 32, head.number);
  store_little_endian(to + 40, head.count);
}

enum class entry_fault : std::uint8_t { none, not_an_entry, other_version, malformed };

[[nodiscard]] inline entry_fault decode(bytes_view record, recording_entry& head) noexcept {
  if (record.size() < recording_entry_size || std::memcmp(record.data(), "atb", 3) != 0)
    return entry_fault::not_an_entry;
  const std::byte* const at = record.data();
  if (load_little_endian<std::uint8_t>(at + 3) != recording_version)
    return entry_fault::other_version;
  head = {.kind = load_little_endian<entry_kind>(at + 4),
          .flags = load_little_endian<std::uint8_t>(at + 5),
          .part = load_little_endian<std::uint16_t>(at + 8),
          .parts = load_little_endian<std::uint16_t>(at + 10),
          .type = load_little_endian<std::uint32_t>(at + 12),
          .from = bus_id{load_little_endian<std::uint64_t>(at + 16)},
          .to = bus_id{load_little_endian<std::uint64_t>(at + 24)},
          .number = load_little_endian<std::uint64_t>(at + 32),
          .count = load_little_endian<std::uint64_t>(at + 40)};
  const bool is_possible = head.kind >= entry_kind::begin && head.kind <= entry_kind::end &&
                           (head.flags & ~entry_flags) == 0 && head.part < head.parts &&
                           load_little_endian<std::uint16_t>(at + 6) == 0 &&
                           (head.parts == 1 || head.kind == entry_kind::message);
  return is_possible ? entry_fault::none : entry_fault::malformed;
}

// In front of a copy that a node passes on: when it did, in nanoseconds since 1970.
inline constexpr std::size_t tap_head_size = 8 + recording_entry_size;
using tap_head_bytes = std::array<std::byte, tap_head_size>;

[[nodiscard]] inline tap_head_bytes tap_head(const recording_entry& head,
                                             std::chrono::nanoseconds at) noexcept {
  tap_head_bytes bytes;
  store_little_endian(bytes.data(), static_cast<std::uint64_t>(at.count()));
  encode(head, bytes.data() + 8);
  return bytes;
}

}  // namespace atbus::detail
