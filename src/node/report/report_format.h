// The bytes of a node's report in its file; doc/design/node_report.md has them.
//
// A file has two copies, which are written in turns, so that one is whole whenever its writer dies. Everything
// read is checked: sizes before they are used, a checksum over all, texts before they are shown. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/node_report.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

inline constexpr std::string_view report_prefix = "atbus-node.";
inline constexpr std::size_t report_peers_max = 4096;

struct report_head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t checksum;  // CRC-32C of all that follows it
  std::uint64_t sequence;  // of the copy; the higher one is the newer one
  std::uint32_t node_size;
  std::uint32_t peer_size;
  std::uint32_t peers;
  std::uint32_t zero;
};
static_assert(sizeof(report_head) == 40);

struct node_record {
  std::uint64_t id;
  std::uint64_t incarnation;
  std::uint64_t parent;
  std::uint64_t pid;
  std::uint64_t started_at;
  std::uint64_t updated_at;
  std::uint64_t message_limit;
  std::uint64_t peers_in_all;
  char program[32];
  char version[32];
  char addresses[1024];  // one in a line
  std::uint64_t handling[time_histogram::classes];
  std::uint64_t counters[64];  // in the order of node_counters()
};
static_assert(sizeof(node_record) == 1984);

struct peer_record {
  std::uint64_t id;
  std::uint64_t incarnation;
  std::uint8_t relation;
  std::uint8_t channel;
  std::uint8_t flags;
  std::uint8_t zero[5];
  char address[128];
  std::uint64_t sent;
  std::uint64_t sent_bytes;
  std::uint64_t received;
  std::uint64_t received_bytes;
  std::uint64_t would_block;
  std::uint64_t undelivered;
  std::uint64_t queued_messages;
  std::uint64_t queued_bytes;
  std::uint64_t queued_bytes_most;
  std::uint64_t links;
  std::uint64_t links_lost;
  std::uint64_t last_loss_at;
  std::int64_t last_loss;
  std::uint64_t round_trip;
  std::uint32_t round_trips[time_histogram::classes];
};
static_assert(sizeof(peer_record) == 424);

// Where the second copy begins: behind the largest first one.
inline constexpr std::size_t report_copy_size =
    (sizeof(report_head) + sizeof(node_record) + report_peers_max * sizeof(peer_record) + 4095) /
    4096 * 4096;

// Replaces `out` by the bytes of a copy. May throw std::bad_alloc.
void encode(const node_report& report, std::uint64_t sequence, std::vector<std::byte>& out);

// The report in a copy, which may have more bytes behind it. not_a_segment: it is none, or is not whole;
// version_mismatch.
[[nodiscard]] result<node_report> decode_report(bytes_view copy);
// Of a copy that begins with these bytes; 0: it is none.
[[nodiscard]] std::uint64_t sequence_of(bytes_view copy) noexcept;
[[nodiscard]] std::size_t size_of(const report_head& head) noexcept;

}  // namespace atbus::detail
