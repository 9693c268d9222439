// Messages that a node has sent to itself, until its next poll.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>

#include "node/core/event_queue.h"

namespace atbus::detail {

class loopback {
 public:
  loopback(node_context& node, event_queue& events) noexcept : node_(node), events_(events) {}

  // False: `length` bytes more are too many.
  [[nodiscard]] bool fits(std::size_t length) const noexcept;
  // The same; on_writable tells when they are not.
  [[nodiscard]] bool has_room(std::size_t length) noexcept {
    const bool has = fits(length);
    wants_room_ = wants_room_ || !has;
    return has;
  }
  // Of a list with that message alone.
  void push(std::list<held_message>& message) noexcept;

  [[nodiscard]] bool empty() const noexcept { return messages_.empty(); }
  // Tells those that are here now, `most` of them, as far as the poll has time. False: the node has been closed.
  template <class Deliver>
  bool tell_all(std::size_t most, Deliver&& deliver) {
    // Those that are sent from here on wait for the next poll.
    for (std::size_t left = std::min(messages_.size(), most);
         left != 0 && !node_.progress.is_enough(); --left) {
      const held_message own = pop();
      deliver(own);
      if (node_.closed)
        return false;
      if (left % poll_progress::per_look == 0 && node_.is_late())
        break;
    }
    tell_room();
    return true;
  }
  // The node leaves: returns the messages that are not delivered.
  [[nodiscard]] std::list<held_message> take_all() noexcept;

 private:
  held_message pop();
  void tell_room();

  node_context& node_;
  event_queue& events_;
  std::list<held_message> messages_;
  std::uint64_t accepted_ = 0;
  std::size_t bytes_ = 0;
  bool wants_room_ = false;  // as of a peer
};

}  // namespace atbus::detail
