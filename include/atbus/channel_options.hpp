// Options and counters shared by all kinds of channel. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "atbus/build_settings.hpp"

namespace atbus {

// How a stream channel (ipv4://, ipv6://, dns://, unix://) uses its sockets.
struct socket_options {
  // Whether this end wants a checksum (CRC-32C) with each message. They are used if either end wants
  // them. By default for TCP, and not between processes of one host (unix://).
  std::optional<bool> checksums = {};
  // The kernel's buffer, in bytes of payload as it counts them; 0: what the kernel chooses.
  int send_buffer = 1 << 20;
  int receive_buffer = 1 << 20;
  // TCP only: have the kernel ask a silent peer whether it is still there.
  bool keepalive = true;
};

// Options of `receiver::open`. What the address says (`shm://name?lanes=16&lane_size=4M`) goes
// before what stands here. Number and size of lanes and the message limit are properties of the
// segment: whoever opens an existing one gets the segment's own, and an explicit wish that differs
// is an error.
struct receiver_options {
  // Most senders at a time, 1 to 4096. 0: 64.
  std::uint32_t lanes = 0;
  // Bytes per lane; rounded up to a power of two, 4 KiB to 1 GiB. 0: 1 MiB, or what the message
  // limit needs. Must be at least 2 x (message_limit + 8), so that the largest message always finds
  // room.
  std::uint64_t lane_size = 0;
  // Largest message in payload bytes, inclusive, at most 64 MiB. 0: ATBUS_MACRO_MSG_LIMIT of the
  // build (64 KiB).
  std::uint64_t message_limit = 0;
  // Hand each message to the handler as a private copy, for when a sender's process is not trusted
  // to leave alone what it has sent. Costs one copy.
  bool copy_on_receive = false;
  // Touch all pages of a lane when a sender takes it, instead of at first use.
  bool prefault = false;
  // Longest time that `wait` spins before it sleeps. How long it really spins follows from how soon
  // messages came lately; an idle receiver does not spin. 0: never.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  // Directory of shm:// segments: a tmpfs shared by the processes that are to meet. Not used by
  // mem://.
  std::string directory = "/dev/shm";

  // Of streams only, from here on.
  socket_options socket = {};
  // Connections that the kernel holds until they are accepted.
  int backlog = build_settings::connection_backlog;
  // Most connections at a time; who comes then waits in the backlog.
  std::uint32_t connections = 4096;
  // Most of them that have not said hello. When one more comes, one is closed of the address (of a
  // Unix socket: of the user) that has most of them: first the one that has been silent for longest.
  std::uint32_t unconfirmed = 256;
  // How long one may take to say hello.
  std::chrono::nanoseconds confirm_timeout = build_settings::connection_confirm_timeout;
};

// Where a stream sender keeps what the kernel has not taken yet.
enum class send_buffer_kind : std::uint8_t {
  fixed,   // a ring of blocks, allocated once, at the first message
  growing  // allocated as it is needed, given back when it is not
};

// Options of `sender::open`. Number and size of lanes and the message limit are the segment's.
struct sender_options {
  // Touch all pages of the lane at once, instead of at first use.
  bool prefault = false;
  // As for a receiver, before `wait_writable` sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  // As for a receiver: the same directory, or they don't meet.
  std::string directory = "/dev/shm";

  // Of streams only, from here on.
  socket_options socket = {};
  // The longest message in payload bytes, as for a receiver; the receiver's limit holds too.
  std::uint64_t message_limit = 0;
  send_buffer_kind buffer = send_buffer_kind::fixed;
  // Most bytes of a growing buffer. 0: 4 MiB, or what the message limit needs.
  std::uint64_t send_buffer_size = 0;
  // Blocks of ATBUS_MACRO_DATA_NODE_SIZE bytes of a fixed one. 0: as many as make 4 MiB, or what the
  // message limit needs.
  std::uint64_t send_buffer_number = 0;
  // How long `open` waits for the connection; it fails then. 0: it does not wait, and the first
  // messages wait for the connection. Also how long each later attempt may take (0: 5 s).
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  // How long closing waits until the other host has taken what was accepted.
  std::chrono::nanoseconds linger = std::chrono::seconds{1};
  // Dial again when the connection is lost or can't be made: after `reconnect_min`, then after
  // twice as long each time, up to `reconnect_max`, each by chance up to a quarter longer or
  // shorter. 0: never.
  std::chrono::nanoseconds reconnect_min{0};
  std::chrono::nanoseconds reconnect_max = std::chrono::seconds{30};
};

// How much one `poll` may do. It ends earlier when nothing is left to deliver.
struct poll_limits {
  std::size_t messages = 4096;
  // Checked about every 32 messages; 0 or less: no limit.
  std::chrono::nanoseconds time{0};
};

// Counters of a channel. Those of shared memory live in the segment, so that any process can read
// them (`atbus shm show`); they count from the creation of the segment, across restarts of either
// side. Those of a stream count from its opening.
struct channel_stats {
  std::uint64_t messages = 0;             // whose handler was run, also if it threw
  std::uint64_t bytes = 0;                // their payload
  std::uint64_t full = 0;                 // claims and sends refused with would_block
  std::uint64_t wake_ups = 0;             // doorbell rings sent by senders
  std::uint64_t space_rings = 0;          // rings sent back to senders that waited for space
  std::uint64_t redelivered = 0;          // handed out again after a receiver died in its handler
  std::uint64_t quarantined = 0;          // lanes and connections found with impossible values
  std::uint64_t padding_bytes = 0;        // skipped at the ends of rings
  std::uint64_t high_water_mark = 0;      // most bytes ever seen waiting in a lane
  std::uint64_t connections = 0;          // of a stream: open now
  std::uint64_t unconfirmed_dropped = 0;  // closed because they never said hello
  std::uint64_t reconnects = 0;           // of a sender: connections after the first
  // What the kernel granted of the wish in socket_options, in bytes: of a sender the send buffer of
  // its connection, of a receiver the receive buffer that its listener hands on.
  std::uint64_t socket_buffer = 0;
};

}  // namespace atbus
