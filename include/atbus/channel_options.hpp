/// @file
/// Options and counters shared by all kinds of channel. Plain values; a channel copies its options.
///
/// Sizes are in bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "atbus/build_settings.hpp"
#include "atbus/strangers.hpp"
#include "atbus/tls.hpp"

namespace atbus {

class carrier;

/// How a stream channel (ipv4://, ipv6://, dns://, unix://) uses its sockets.
struct socket_options {
  /// Whether this end wants a checksum (CRC-32C) with each message. It is used if either end wants
  /// it. Default: yes for TCP, no between processes of one host (unix://).
  std::optional<bool> checksums = {};
  /// Size of the kernel's buffer for what is sent, in bytes of payload as the kernel counts them.
  /// 0: the kernel's choice. Default: one of the two below.
  std::optional<int> send_buffer = {};
  static constexpr int tcp_send_buffer = 1024 * 1024;  ///< The default over TCP, in bytes.
  /// The default over Unix sockets, in bytes. A larger buffer stays full under load, and messages wait in it.
  static constexpr int unix_send_buffer = 256 * 1024;
  /// Size of the kernel's buffer for what arrives, counted in the same way.
  int receive_buffer = 1024 * 1024;
  /// TCP only: the kernel checks whether a silent peer is still there.
  bool keepalive = true;
  /// TCP only: how connections are encrypted. Default: not at all. Both ends must have it; `tls=false` in an address
  /// turns it off there. The other end proves who it is before any message passes, and messages have no checksums,
  /// because each encrypted record is authenticated.
  tls_credentials tls = {};
  /// Of connections and nodes only: makes links to `nats://` addresses. Null: these are refused.
  std::shared_ptr<atbus::carrier> carrier = nullptr;
};

/// Options of `receiver::open`. Options in the address (`shm://name?lanes=16&lane_size=4M`) take
/// precedence over these. Number of lanes, lane size and message limit belong to the segment: a
/// receiver that opens an existing segment gets the segment's own values, and a value given here
/// that differs is an error (geometry_mismatch). `socket` and all options after it are for streams
/// only.
struct receiver_options {
  /// Maximum number of senders at a time: 1 to 4096. 0: 64.
  std::uint32_t lanes = 0;
  /// Bytes per lane, rounded up to a power of two: 4 KiB to 1 GiB. 0: 1 MiB, or more if the message
  /// limit needs it. Must be at least 2 x (message_limit + 8), so that the largest message always
  /// finds room.
  std::uint64_t lane_size = 0;
  /// Largest message in payload bytes, inclusive; at most 64 MiB. 0: ATBUS_MACRO_MSG_LIMIT of the
  /// build (64 KiB).
  std::uint64_t message_limit = 0;
  /// Gives the handler a private copy of each message. For senders that may change a message while
  /// the handler reads it. Costs one copy per message.
  bool copy_on_receive = false;
  /// Touches all pages of a lane when a sender takes it, instead of at first use.
  bool prefault = false;
  /// The longest time that `wait` spins before it sleeps. The actual time adapts to how soon
  /// messages have come lately; an idle receiver does not spin. 0: never.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  /// Directory of shm:// segments: a tmpfs that all communicating processes share. Not used by
  /// mem://.
  std::string directory = "/dev/shm";

  /// How the listener and its connections use their sockets.
  socket_options socket = {};
  /// Connections that the kernel queues until they are accepted.
  int backlog = build_settings::connection_backlog;
  /// Maximum number of open connections. Further ones wait in the backlog.
  std::uint32_t connections = 4096;
  /// Maximum number of connections that have not said hello. When one more comes, the receiver
  /// closes the longest silent one of the address (for a Unix socket: the user) that has most of
  /// them.
  std::uint32_t unconfirmed = 1024;
  /// How long a connection may take to say hello. Default: ATBUS_MACRO_CONNECTION_CONFIRM_TIMEOUT
  /// of the build (30 s).
  std::chrono::nanoseconds confirm_timeout = build_settings::connection_confirm_timeout;
  /// What else connections may cost that have not said hello.
  stranger_limits strangers = {};
};

/// Where a stream sender queues messages that the kernel has not taken yet.
enum class send_buffer_kind : std::uint8_t {
  fixed,   ///< A ring of blocks, allocated once, at the first message.
  growing  ///< Memory allocated as needed, and freed afterwards.
};

/// Options of `sender::open`. Lanes, lane size and message limit of shared memory are the
/// segment's. `socket` and all options after it are for streams only.
struct sender_options {
  /// Touches all pages of the lane when it is taken, instead of at first use.
  bool prefault = false;
  /// The longest time that `wait_writable` spins before it sleeps; see receiver_options::spin.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  /// Directory of shm:// segments; both ends need the same one.
  std::string directory = "/dev/shm";

  /// How the connection uses its socket.
  socket_options socket = {};
  /// Largest message in payload bytes, as for a receiver; the receiver's limit applies as well.
  std::uint64_t message_limit = 0;
  /// Where messages wait that the kernel has not taken yet.
  send_buffer_kind buffer = send_buffer_kind::fixed;
  /// Maximum size of a growing buffer in bytes. 0: 4 MiB, or more if the message limit needs it.
  std::uint64_t send_buffer_size = 0;
  /// Number of blocks (ATBUS_MACRO_DATA_NODE_SIZE bytes each) of a fixed buffer. 0: as many as make
  /// 4 MiB, or more if the message limit needs it.
  std::uint64_t send_buffer_number = 0;
  /// How long `open` waits for the connection before it fails. 0, or with `reconnect_min` above 0:
  /// `open` does not wait, and the first messages wait for the connection. Also the time limit of
  /// each later attempt, with the lookup of its name and its TLS handshake (0: 5 s).
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// How long closing waits until all accepted messages are written. Over TCP, if the receiver has
  /// not said hello yet, closing also waits until the other host has acknowledged them. Those that
  /// it has not when this time is over may be lost.
  std::chrono::nanoseconds linger = std::chrono::seconds{1};
  /// Backoff for dialling again after a connection is lost or can't be made: `reconnect_min`, then
  /// doubled each time up to `reconnect_max`; each wait is random, up to a quarter longer or
  /// shorter. `reconnect_min` 0: never dials again.
  std::chrono::nanoseconds reconnect_min{0};
  /// The longest backoff; see `reconnect_min`.
  std::chrono::nanoseconds reconnect_max = std::chrono::seconds{30};
};

/// Limits of one `poll`. It returns earlier when nothing is left to deliver.
struct poll_limits {
  /// At most this many messages are delivered.
  std::size_t messages = 4096;
  /// Approximate time limit, checked every 32 messages. 0 or less: no limit.
  std::chrono::nanoseconds time{0};
};

/// Counters of a channel. Those of shared memory live in the segment, so that any process can read
/// them (`atbus shm show`); they count from the creation of the segment, across restarts of either
/// side. Those of a stream count from its opening.
struct channel_stats {
  std::uint64_t messages = 0;     ///< Messages whose handler ran, also if it threw.
  std::uint64_t bytes = 0;        ///< Payload bytes of these.
  std::uint64_t full = 0;         ///< Claims and sends refused with would_block.
  std::uint64_t wake_ups = 0;     ///< Wake-ups of the receiver, sent by senders.
  std::uint64_t space_rings = 0;  ///< Wake-ups of senders that waited for space.
  /// Messages delivered again after a receiver died in its handler.
  std::uint64_t redelivered = 0;
  std::uint64_t quarantined = 0;      ///< Lanes and connections found with impossible values.
  std::uint64_t padding_bytes = 0;    ///< Bytes skipped at the ends of rings.
  std::uint64_t high_water_mark = 0;  ///< Most bytes ever seen waiting in a lane or queue.
  std::uint64_t connections = 0;      ///< Connections of a stream that are open now.
  /// Connections closed before they said hello: too late, or too many. At shards also those closed
  /// before they began: no room, or a newer one of their sender.
  std::uint64_t unconfirmed_dropped = 0;
  stranger_stats strangers =
      {};  ///< Why, for connections that were accepted, and which had to wait.
  /// Connections that ended inside their TLS handshake: another secret, an untrusted certificate, no TLS. Not
  /// those that a limit for strangers has closed.
  std::uint64_t tls_failed = 0;
  std::uint64_t reconnects = 0;  ///< Connections after the first.
  /// Buffer size in bytes that the kernel granted (socket_options asks for it). For a sender, the
  /// send buffer of its connection; for a receiver, the receive buffer that accepted connections
  /// inherit from its listener.
  std::uint64_t socket_buffer = 0;
};

}  // namespace atbus
