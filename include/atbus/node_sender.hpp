/// @class atbus::node_sender
/// Sends through a node from another thread. It has a lane of its own in memory, which the node
/// empties at each poll. node::sender() makes one.
///
/// ```cpp
/// std::jthread worker([sender = node.sender()]() mutable { sender.send(7, kLog, line); });
/// ```
///
/// The node sends the accepted messages as its own: in order, with the outcomes of node::send. If
/// the node refuses one (no_route, message_too_large and so on), it reports the message to its
/// on_undelivered, with the number 0. While the destination has no room, messages wait in the lane;
/// it holds 1 MiB, or more if the message limit needs it.
///
/// Ownership: the lane belongs to this object, which may outlive the node. Once the node has ended,
/// send returns `closed`, and take_back returns the messages that the node had not taken.
///
/// Threads: one thread at a time uses a node_sender; any number of them work side by side.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/sender.hpp"
#include "atbus/status.hpp"

namespace atbus {

class ATBUS_API node_sender {
 public:
  /// Accepts a copy of the message. Errors: would_block (the lane is full: wait_writable),
  /// message_too_large (the node's own limit), closed (the node has ended), and the error that kept
  /// node::sender() from making the lane.
  status send(bus_id to, std::uint32_t type, bytes_view bytes) noexcept;
  /// Accepts a copy of the text.
  status send(bus_id to, std::uint32_t type, std::string_view text) noexcept {
    return send(to, type, as_bytes(text));
  }

  /// Sleeps until there is room after a would_block (ok), or `timeout` has passed (timed_out;
  /// negative: no limit). Errors: closed.
  status wait_writable(std::chrono::nanoseconds timeout);

  /// After the node has ended: passes each message that was accepted here and not taken by the node
  /// to `each`, in order, and removes it. Returns their number; 0 while the node lives.
  std::size_t take_back(
      const std::function<void(bus_id to, std::uint32_t type, bytes_view bytes)>& each);

 private:
  friend class node;
  explicit node_sender(result<sender> lane);

  std::optional<sender> lane_;
  status why_;
};

}  // namespace atbus
