// When a node says how far it has come with what a link brought.
//
// A message counts as handled when its handler is called. While that runs no acknowledgement covers it: if the
// process ends there, its successor is to get the message.
//
// One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "node/core/link_output.h"

namespace atbus::detail {

class acknowledgements {
 public:
  acknowledgements(node_context& node, link_output& output) noexcept
      : node_(node), output_(output) {}

  // There are so many sessions. What follows takes no memory then.
  void make_room(std::size_t sessions) {
    if (sessions > listed_.capacity())
      listed_.reserve(std::max(sessions, 2 * listed_.capacity()));
  }
  // A message of that link was handled. `data`: its sender waits for the acknowledgement.
  void count_handled(session& from, bool data) noexcept {
    ++from.handled;
    if (from.keeps && !from.acknowledge_listed)
      list(from, data);
  }
  // The last message that was counted there is handled from here on; null: none is.
  void set_in_hand(const session* of) noexcept { in_hand_ = of; }
  [[nodiscard]] bool has_in_hand(const session& of) const noexcept { return &of == in_hand_; }
  // How many of that link's messages an acknowledgement may cover.
  [[nodiscard]] std::uint64_t done(const session& of) const noexcept {
    const std::uint64_t past = of.handled - (has_in_hand(of) ? 1 : 0);
    return of.untold_at != 0 ? std::min(past, of.untold_at - 1) : past;
  }
  // False: there is no room, or nothing new to say.
  bool acknowledge(session& by, std::chrono::nanoseconds now);
  // The sender may be waiting for room, and the poll that runs may go on for long.
  void acknowledge_at_once(session& by);
  // All that are due, and those in whose company something leaves.
  void acknowledge_due(std::chrono::nanoseconds now);
  // `never`: nothing waits.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept { return due_; }
  void forget(const session& gone) {
    std::erase(listed_, &gone);
    if (has_in_hand(gone))
      in_hand_ = nullptr;
  }

 private:
  void list(session& from, bool data) noexcept;

  node_context& node_;
  link_output& output_;
  const session* in_hand_ = nullptr;
  std::vector<session*> listed_;  // something is to be acknowledged there; with room for all
  std::chrono::nanoseconds due_ = timer_queue::never;
};

}  // namespace atbus::detail
