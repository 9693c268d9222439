// The bytes of a segment file: one header page, the lane table, the lanes. doc/design/segment.md
// shows them with a worked example; `lane_slot` (atbus/detail/lane.hpp) is one entry of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "atbus/detail/lane.hpp"

namespace atbus::detail {

// Whether `to` is a possible position behind `from` in a ring of that capacity. Modulo 2^64.
constexpr bool within(std::uint64_t from, std::uint64_t to, std::uint64_t capacity) noexcept {
  return to - from <= capacity;
}

inline constexpr char segment_magic[8] = {'a', 't', 'b', 'u', 's', 'S', 'E', 'G'};
inline constexpr std::uint32_t layout_version = 2;
inline constexpr std::uint32_t max_lanes = 4096;
inline constexpr std::uint64_t min_lane_size = 4096;
inline constexpr std::uint64_t max_lane_size = std::uint64_t{1} << 30;
inline constexpr std::uint64_t max_message_limit = std::uint64_t{64} << 20;
// Header and lane table are mapped together, and a sender maps its lane alone. So a lane begins at a page
// boundary of every kernel; aarch64 may have pages of 64 KiB.
inline constexpr std::uint64_t header_space = 4096;
inline constexpr std::uint64_t lane_alignment = 64 * 1024;

// The receiver's description of itself. For display only; no code decides by it.
struct receiver_note {
  std::uint32_t pid;  // as the receiver's own pid namespace numbers it
  std::uint32_t reserved;
  std::uint64_t opened_at;  // nanoseconds since 1970
  char program[48];         // NUL-terminated
};
static_assert(sizeof(receiver_note) == 64 && std::is_trivially_copyable_v<receiver_note>);

// Written once, before the segment has a name; read-only afterwards.
struct segment_identity {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint32_t lane_count;
  std::uint32_t slot_size;
  std::uint64_t lane_size;
  std::uint64_t message_limit;  // payload bytes, inclusive
  std::uint64_t table_offset;
  std::uint64_t lanes_offset;
  std::uint64_t file_size;
  std::uint64_t created_at;  // nanoseconds since 1970
  std::uint64_t segment_id;  // random
};
static_assert(sizeof(segment_identity) == 80 && std::is_trivially_copyable_v<segment_identity>);

struct segment_header {
  segment_identity identity;
  // Written by the receiver; senders read it after an alert.
  alignas(line_size) shared_word sleeping;  // generation << 32 | sleep count; low half 0: awake
  shared_word generation;                   // counts receivers that opened the segment, from 1
  shared_word retired;                      // 1: removed, open it anew by name
  shared_word fence_needed;                 // 1: the receiver can't execute membarrier
  // Written by the receiver, read for statistics.
  alignas(line_size) shared_word wake_ups;  // sleeps ended by a ring, a connection, an end-of-file
  shared_word sleeps;
  shared_word short_sleeps;  // cut to 1 ms because a sender has not yet echoed `fence_needed`
  shared_word connections_refused;
  shared_word barriers;                    // membarrier calls
  alignas(line_size) shared_word note[8];  // receiver_note
  // Bit i of word i/64: lane i has records although it is parked. Set by senders, cleared by the
  // receiver.
  alignas(1024) shared_word ready[max_lanes / 64];
};
static_assert(offsetof(segment_header, sleeping) == 128 &&
              offsetof(segment_header, wake_ups) == 256);
static_assert(offsetof(segment_header, note) == 384 && offsetof(segment_header, ready) == 1024);
static_assert(sizeof(segment_header) == 2048 && sizeof(segment_header) <= header_space);

// The offsets and sizes of a segment, all computed from three numbers.
struct segment_geometry {
  std::uint32_t lane_count = 0;
  std::uint64_t lane_size = 0;
  std::uint64_t message_limit = 0;

  [[nodiscard]] constexpr std::uint64_t table_offset() const noexcept { return header_space; }
  // Header and lane table. A hole separates them from the lanes.
  [[nodiscard]] constexpr std::uint64_t control_size() const noexcept {
    return table_offset() + std::uint64_t{lane_count} * sizeof(lane_slot);
  }
  [[nodiscard]] constexpr std::uint64_t lanes_offset() const noexcept {
    return round_up(control_size());
  }
  // From one lane to the next. A hole follows a small lane.
  [[nodiscard]] constexpr std::uint64_t lane_distance() const noexcept {
    return round_up(lane_size);
  }
  [[nodiscard]] constexpr std::uint64_t lane_offset(std::uint32_t lane) const noexcept {
    return lanes_offset() + lane * lane_distance();
  }
  [[nodiscard]] constexpr std::uint64_t file_size() const noexcept {
    return lane_offset(lane_count);
  }
  friend constexpr bool operator==(const segment_geometry&, const segment_geometry&) = default;

 private:
  static constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept {
    return (bytes + lane_alignment - 1) & ~(lane_alignment - 1);
  }
};

// Bytes of the file that carry liveness locks: byte 0 is the receiver's, byte 1 + i that of lane i.
inline constexpr std::uint64_t receiver_lock_byte = 0;
[[nodiscard]] constexpr std::uint64_t lane_lock_byte(std::uint32_t lane) noexcept {
  return std::uint64_t{1} + lane;
}

// Copy small records into and out of shared words. Relaxed: they are only displayed, so a torn copy does no
// harm.
template <class Record>
void store_words(shared_word* words, const Record& record) noexcept {
  std::uint64_t raw[sizeof(Record) / 8];
  std::memcpy(raw, &record, sizeof record);
  for (std::size_t i = 0; i < sizeof(Record) / 8; ++i)
    words[i].store(raw[i], std::memory_order_relaxed);
}
template <class Record>
[[nodiscard]] Record load_words(const shared_word* words) noexcept {
  std::uint64_t raw[sizeof(Record) / 8];
  for (std::size_t i = 0; i < sizeof(Record) / 8; ++i)
    raw[i] = words[i].load(std::memory_order_relaxed);
  Record record;
  std::memcpy(&record, raw, sizeof record);
  return record;
}

}  // namespace atbus::detail
