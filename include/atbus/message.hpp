/// @file
/// The arguments of a node's handlers: messages, and reports of messages that were not delivered.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "atbus/trace_context.hpp"

namespace atbus {

/// A message as on_message gets it, in place. The object and its bytes are valid until the handler
/// returns; copy the bytes to keep them.
class message {
 public:
  /// Made by nodes. A program makes one to test its own handlers. `bytes` are not copied. `traced`: a
  /// trace context (trace_context::write) follows them in memory.
  message(bus_id source, bus_id destination, std::uint32_t type, bytes_view bytes, bool redelivered,
          bool traced = false) noexcept
      : source_(source),
        destination_(destination),
        bytes_(bytes),
        type_(type),
        redelivered_(redelivered),
        traced_(traced) {}

  /// The node that sent the message.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The node it was sent to: this node, also for a broadcast.
  [[nodiscard]] bus_id destination() const noexcept { return destination_; }
  /// The number that the sender passed to send.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// The payload, in place.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// The payload as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }
  /// True if an earlier incarnation of this node may have handled it.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }
  /// The trace context that it was sent with; nothing: without one.
  [[nodiscard]] std::optional<trace_context> trace() const noexcept {
    return traced_ ? std::optional{trace_context::read(bytes_.data() + bytes_.size())}
                   : std::nullopt;
  }

 private:
  bus_id source_;
  bus_id destination_;
  bytes_view bytes_;
  std::uint32_t type_;
  bool redelivered_;
  bool traced_;
};

/// Reports an accepted message that was not delivered, or whose outcome is unknown. Valid until the
/// handler returns. Reports of messages dropped for lack of room keep at most
/// node_options::send_buffer_size bytes (at least 1 MiB) until the next poll; further ones for the
/// same destination are merged into one report.
class undelivered {
 public:
  /// Made by nodes. A program makes one to test its own handlers. `bytes` are not copied.
  undelivered(bus_id destination, std::uint64_t number, std::uint32_t type, bytes_view bytes,
              errc outcome, errc reason, std::uint64_t count = 1) noexcept
      : destination_(destination),
        number_(number),
        count_(count),
        bytes_(bytes),
        type_(type),
        outcome_(outcome),
        reason_(reason) {}

  /// The node it was sent to.
  [[nodiscard]] bus_id destination() const noexcept { return destination_; }
  /// Number among all messages that this node sent there. It counts from 1 or, once the node has
  /// forgotten a destination, from a higher number.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// How many messages this report covers. If more than one, they were dropped: number() and type()
  /// are those of the last one, and bytes() is empty.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The number that was passed to send.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// The payload; empty if the report covers more than one message.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// not_delivered: no handler has seen the message, and none will. outcome_unknown: a handler may
  /// have seen it.
  [[nodiscard]] errc outcome() const noexcept { return outcome_; }
  /// Why it was not delivered:
  ///
  ///     timed_out            its deadline has passed, or a route over other nodes gave no answer
  ///     peer_closed          the process there has ended
  ///     would_block          dropped for lack of room
  ///     closed               disconnect or shutdown
  ///     superseded           another process has this bus id now, or the other end has forgotten how
  ///                          far it had come
  ///     no_route             no route leads there
  ///     message_too_large    for the other end, whose limit was not known yet
  ///     denied               the access rules of this node or of the destination refuse it; of the
  ///                          destination's, bytes() is empty
  ///     hop_limit, denied, version_mismatch    why no route over other nodes could be opened
  [[nodiscard]] errc reason() const noexcept { return reason_; }

 private:
  bus_id destination_;
  std::uint64_t number_;
  std::uint64_t count_;
  bytes_view bytes_;
  std::uint32_t type_;
  errc outcome_;
  errc reason_;
};

}  // namespace atbus
