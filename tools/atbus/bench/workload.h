// What a run does. Plain data: it lies in memory that the parent and its workers share.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "atbus/bench/cache/cache_workload.h"
#include "atbus/bench/clock.h"
#include "atbus/bench/message.h"
#include "atbus/bench/request_workload.h"

namespace atbus::bench {

// The secret of both ends where TCP is encrypted.
inline constexpr const char* bench_token = "no secret: both ends of a benchmark";

enum class api_kind : std::uint8_t { send, claim };

// What one worker does.
enum class task : std::uint8_t {
  none,
  channel_receiver,
  channel_sender,
  channel_ping,
  channel_pong,
  node_receiver,
  node_sender,
  node_ping,
  node_pong,
  node_relay,
  node_both_ends,
  node_member,
  request_service,
  request_client,
  ring_receiver,
  ring_sender,
  ring_ping,
  ring_pong,
  cache_line_ping,
  cache_line_pong,
  event_ping,
  event_pong,
  socket_reader,
  socket_writer,
  socket_ping,
  socket_pong,
  frame_receiver,
  frame_sender,
  cache_server,
  cache_client,
  cache_rival_server,
  cache_rival_client,
  copy,
};

struct workload {
  static constexpr std::size_t most_address_bytes = 256;

  std::array<char, most_address_bytes> address{};        // NUL-terminated
  std::array<char, most_address_bytes> reply_address{};  // of a ping-pong's way back

  std::uint32_t unit_size = 16;  // 0: every message is `size` bytes long
  std::uint64_t size = 0;
  std::uint32_t senders = 1;
  std::uint32_t receivers =
      1;  // threads of the receiving process, each with a shard of the address
  std::uint32_t connections = 1;   // of all senders together; at least one each
  std::uint32_t idle_senders = 0;  // lanes or connections that are held and never used
  check_kind check = check_kind::full;
  api_kind api = api_kind::send;
  std::uint32_t batch = 1;  // messages published together
  std::uint64_t rate = 0;   // messages per second of all senders together; 0: no limit
  std::int64_t duration_ns = ns_per_s;
  std::uint64_t round_trips = 0;  // 0: until the time is over

  bool sleep = false;         // receivers sleep instead of polling
  std::int64_t spin_ns = -1;  // how long they may spin before; -1: the library's default
  bool prefault = false;
  std::uint32_t lanes = 0;  // 0: the library's default, as below
  std::uint64_t lane_size = 0;

  // Streams.
  bool stream = false;                  // the addresses are of sockets,
  bool moves_to_lanes = false;          // whose two ends agree on shared memory
  bool growing_buffer = false;          // of a sender: allocated as needed
  std::uint64_t send_buffer_bytes = 0;  // 0: the library's default, as below
  std::uint64_t send_buffer_blocks = 0;
  std::int64_t socket_buffer_bytes = -1;  // asked of the kernel, which has its own choice at 0

  // Nodes.
  std::int64_t write_delay_ns = 0;
  std::uint32_t hops = 0;   // relays between the ends
  std::uint32_t nodes = 0;  // that all send to each other; 0: senders send to one receiver
  bool own_ends = false;    // both ends are in one worker

  request_workload requests;
  cache_workload cache;

  bool hang_back = false;             // bare ring: wait a moment when little is there
  std::array<int, 2> events{-1, -1};  // eventfd ping-pong: there and back
  std::uint64_t copy_area = 0;        // copy: bytes of the destination

  // Bare sockets. The two ends of a connection: the reader's (or ping's) and the writer's.
  std::array<int, 2> sockets{-1, -1};
  std::uint32_t write_bytes = 0;  // handed to the kernel at once, or a little more
  std::uint32_t read_bytes = 0;   // taken from it at most at once

  bool checksum = false;  // frames carry one, of streams too
  bool tls = false;       // TCP is encrypted, with a secret that both ends have

  // The first connection of a sender; those of the next begin where its own end.
  std::uint32_t first_connection(std::uint64_t sender) const noexcept {
    return static_cast<std::uint32_t>(sender * connections / senders);
  }

  // Workers are threads of one process.
  bool in_process() const noexcept {
    return std::string_view{address.data()}.starts_with("mem://");
  }

  message_lengths lengths() const noexcept {
    return unit_size != 0 ? message_lengths::uniform(unit_size) : message_lengths::fixed(size);
  }
};
static_assert(std::is_trivially_copyable_v<workload>);

}  // namespace atbus::bench
