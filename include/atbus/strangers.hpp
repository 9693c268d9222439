/// @file
/// What connections may cost a listener before it knows who is at the other end. Plain values.
///
/// A stranger is a connection that was accepted and whose other end has not said hello or, where the program accepts it
/// itself (connection_options::user_confirms), was not confirmed; for a node: whose other end has not registered. The
/// limits hold for each listener. No limit touches a connection that is known.
///
/// The number of connections and of strangers, and how long one may remain a stranger, are `connections`,
/// `unconfirmed` and `confirm_timeout` of receiver_options, listen_options and connection_options; for a node
/// `connections`, `unconfirmed` and `first_idle_timeout` of node_options.
#pragma once

#include <chrono>
#include <cstdint>

namespace atbus {

/// Limits for strangers.
struct stranger_limits {
  /// Maximum number of strangers of one address: an IPv4 address, the first 64 bits of an IPv6 address, or a user at
  /// the other end of Unix sockets. When one more comes, another one of that address is closed: the one that is there
  /// for longest of those that have said nothing, or of all if each has said something. 0 (the default): only all
  /// strangers together are limited. Then too, the address that has most of them loses one first.
  std::uint32_t per_address = 0;
  /// How long a stranger may take to say anything. 0: as long as to become known. Default 10 s.
  std::chrono::nanoseconds first_byte_timeout = std::chrono::seconds{10};
  /// Bytes that a stranger may send beside the longest message that is allowed to it, which for a receiver is the
  /// hello; if it sends more, it is closed. With TLS all bytes count, also those of the handshake. 0: no limit.
  /// Default 256 KiB.
  std::uint64_t bytes = std::uint64_t{256} << 10;
  /// So many strangers per second begin their handshake: their first bytes are read. Others wait, connected and unread.
  /// Their addresses take turns; those of one address begin in the order in which they spoke. As many as in one second
  /// may begin at once. 0: no limit. Default 1,000.
  std::uint32_t handshakes_per_second = 1000;
};

/// What became of strangers, since the opening.
struct stranger_stats {
  std::uint64_t silent = 0;  ///< Closed: they said nothing within first_byte_timeout.
  std::uint64_t late = 0;    ///< Closed: they did not become known in time.
  /// Closed to make room for others: too many, or too many of one address.
  std::uint64_t crowded = 0;
  std::uint64_t talkative = 0;  ///< Closed: they sent more than `bytes`.
  std::uint64_t faulty = 0;     ///< Closed: they sent bytes that no peer sends.
  std::uint64_t delayed = 0;    ///< They waited to begin their handshake.
};

}  // namespace atbus
