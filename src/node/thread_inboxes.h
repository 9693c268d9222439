// Messages that other threads send through a node: one lane in memory for each node_sender.
//
// The lanes synchronize; everything else here belongs to the node's thread. A message whose destination has
// no room stays in its lane, and blocks only that one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "core/node_instance.h"

namespace atbus::detail {

class node_core;

// In front of each message in such a lane.
struct thread_message_head {
  std::uint64_t to = 0;
  std::uint32_t type = 0;
  std::uint32_t reserved = 0;
};

class thread_inboxes {
 public:
  // A lane for messages of up to `message_limit` bytes; `epoll` will watch it.
  result<sender> open(const node_instance& self, std::size_t message_limit, int epoll);

  // Sends what is there, at most `most` messages of each lane. False: there are no lanes.
  bool pass_on(node_core& to, std::size_t most) {
    if (inboxes_.empty())
      return false;
    pass_on_all(to, most);
    return true;
  }
  // Whether nothing waits in any lane.
  [[nodiscard]] bool is_empty() const noexcept;

  // As of a transport.
  [[nodiscard]] bool has_lanes() const noexcept { return !inboxes_.empty(); }
  [[nodiscard]] bool has_messages() noexcept;
  // As of a receiver.
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  // The senders are told `closed`; what is left in their lanes is theirs again.
  void close() noexcept { inboxes_.clear(); }

 private:
  struct inbox {
    explicit inbox(receiver opened) : in(std::move(opened)) {}
    ~inbox() { (void)in.remove(); }

    receiver in;
    bool waits = false;  // there was no room for its next message: the lane is paused
    bool empty = false;  // when it was polled last
  };

  void pass_on_all(node_core& to, std::size_t most);
  static taken receive(inbox& from, node_core& to, bytes_view message);

  std::vector<std::unique_ptr<inbox>> inboxes_;
  std::uint64_t opened_ = 0;
};

}  // namespace atbus::detail
