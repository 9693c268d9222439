// What a node's handlers are told: messages, and what became of those that were not delivered.
#pragma once

#include <cstdint>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/status.hpp"

namespace atbus {

// A message as it is handed to on_message: in place. It and its bytes are valid until the handler
// returns; copy what is to be kept.
class message {
 public:
  message(bus_id source, bus_id destination, std::uint32_t type, bytes_view bytes,
          bool redelivered) noexcept
      : source_(source),
        destination_(destination),
        bytes_(bytes),
        type_(type),
        redelivered_(redelivered) {}

  [[nodiscard]] bus_id source() const noexcept { return source_; }
  [[nodiscard]] bus_id destination() const noexcept { return destination_; }
  // As the sender gave it.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }
  // An earlier life of this node may have handled it.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }

 private:
  bus_id source_;
  bus_id destination_;
  bytes_view bytes_;
  std::uint32_t type_;
  bool redelivered_;
};

// An accepted message that was not delivered, or of which nobody knows. Valid until the handler
// returns. Reports that wait for a poll keep at most node_options::send_buffer_size bytes, or 1 MiB, of
// messages that were dropped for want of room; further ones for the same destination are told as one.
class undelivered {
 public:
  undelivered(bus_id destination, std::uint64_t number, std::uint32_t type, bytes_view bytes,
              errc outcome, errc reason, std::uint64_t count = 1) noexcept
      : destination_(destination),
        number_(number),
        count_(count),
        bytes_(bytes),
        type_(type),
        outcome_(outcome),
        reason_(reason) {}

  [[nodiscard]] bus_id destination() const noexcept { return destination_; }
  // Of all messages this node sent there, counted from 1, or from where it stood when the node had
  // forgotten the destination.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  // How many messages this tells of. If more than one, they were dropped: then number() and type() are
  // those of the last one, and bytes() is empty.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  // not_delivered: proven that no handler has seen it, nor will; outcome_unknown: not proven.
  [[nodiscard]] errc outcome() const noexcept { return outcome_; }
  // Why: timed_out (its deadline; or nobody answered over other nodes), peer_closed (the process there
  // has ended), would_block (dropped for want of room), closed (disconnect or shutdown), superseded (the
  // other end has forgotten how far it had come, or another process has this bus id now), no_route (no
  // way leads there), message_too_large (for the other end, which was not known yet); or why no way over
  // other nodes came to be: hop_limit, denied, version_mismatch.
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
