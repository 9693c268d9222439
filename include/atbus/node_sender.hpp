// Sends through a node from another thread: a lane of its own in memory, which the node empties each
// time that it is polled. node::sender() makes one; it may outlive the node.
//
//   std::jthread worker([sender = node.sender()]() mutable { sender.send(7, kLog, line); });
//
// What it accepted the node sends as if its own thread had: in order, with the outcomes of node::send.
// What the node would have refused (no_route, message_too_large and so on) is told to its
// on_undelivered, as message number 0. While the destination is not ready for more, the lane waits;
// it holds 1 MiB, or what the message limit needs.
//
// Threads: one at a time uses a node_sender; any number of them work side by side.
// When the node ends, send says `closed`; take_back hands out what the node had not come to.
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
  // Errors: would_block (wait_writable), message_too_large (for the node's own limit), closed (the
  // node has ended), and what was in the way of making this one.
  status send(bus_id to, std::uint32_t type, bytes_view bytes) noexcept;
  status send(bus_id to, std::uint32_t type, std::string_view text) noexcept {
    return send(to, type, as_bytes(text));
  }

  // Sleeps until there is room after a would_block (ok), or `timeout` has passed (timed_out; negative:
  // for ever). Errors: closed.
  status wait_writable(std::chrono::nanoseconds timeout);

  // After the node has ended: hands out, in order, what was accepted here and the node has not taken,
  // and forgets it. Returns their number; 0 while the node lives.
  std::size_t take_back(
      const std::function<void(bus_id to, std::uint32_t type, bytes_view bytes)>& each);

 private:
  friend class node;
  explicit node_sender(result<sender> lane);

  std::optional<sender> lane_;
  status why_;
};

}  // namespace atbus
