// The messages from this life of a node to one destination: their numbers, and those that no path has
// taken yet. A pure state machine: no clock, no channel; its owner carries messages to the path
// and tells what became of that.
//
// Each accepted message has a number, one more than the one before. It is in one of these places:
//
//   held        here, with its bytes: there is no path, or those before it wait too
//   in the path its bytes are in a channel, until the destination has handled it
//   settled     delivered, or reported with one of the other two outcomes, exactly once
//
// Guarantees:
//  - Everything in the path is older than everything held, and both are in order; so the destination
//    sees numbers that only grow, with gaps only where a message was reported.
//  - A message leaves unsettled state by exactly one of: the channel's release (delivered), resume()
//    (delivered), or one call of the sink (not delivered, or unknown).
//  - not_delivered is said only of what can't have been handed to a handler, neither now nor later:
//    a destination that says how far it has come has let go of every earlier path before.
//  - After a loss of the path a message that may have arrived goes out again only to the same life,
//    which drops it by its number if it has it, or marked as redelivered to a later life.
//
// doc/design/delivery.md has the argument. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "atbus/core/bytes.hpp"
#include "atbus/core/status.hpp"
#include "atbus/delivery/policies.hpp"
#include "core/node_life.h"

namespace atbus::detail {

// What the destination says of a flow when a path to it opens.
struct flow_position {
  bool known = false;  // it remembers this flow
  std::uint64_t last =
      0;  // the highest number it has handed to a handler or been told to pass over
};

struct held_message {
  std::uint64_t number = 0;
  std::uint32_t type = 0;
  // Whether the life that it was sent to last may have handled it.
  bool may_have_arrived = false;
  // Marked: an earlier life of the destination than that one may have handled it.
  bool redelivered = false;
  std::chrono::nanoseconds deadline{0};  // 0: none
  std::vector<std::byte> bytes;

  // What there is to report if it goes no further.
  [[nodiscard]] errc outcome() const noexcept {
    return may_have_arrived || redelivered ? errc::outcome_unknown : errc::not_delivered;
  }
};

class outgoing_flow {
 public:
  // Told of each message that is settled without being delivered, and why it is not; its outcome()
  // holds.
  using sink = std::function<void(const held_message&, errc reason)>;

  // The next message is accepted. Returns its number.
  std::uint64_t accept() noexcept { return ++accepted_; }
  [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_; }

  // Whether something is held: what is accepted later has to be held too.
  [[nodiscard]] bool holds() const noexcept { return !held_.empty(); }
  [[nodiscard]] std::size_t held_messages() const noexcept { return held_.size(); }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

  // Keeps a message that was accepted just now.
  void hold(held_message message);
  // The oldest one held; there must be one. Then `carried` once its bytes are in the path.
  [[nodiscard]] const held_message& front() const noexcept { return held_.front(); }
  void carried() noexcept {
    sent(held_.front().number);
    remove(held_.begin());
  }

  // Whether the destination counts on this number next. Any other has to be announced, with
  // last_sent() as the one before it.
  [[nodiscard]] bool follows(std::uint64_t number) const noexcept {
    return !fresh_path_ && number == last_sent_ + 1;
  }
  [[nodiscard]] std::uint64_t last_sent() const noexcept { return last_sent_; }
  // The message with this number is in the path.
  void sent(std::uint64_t number) noexcept {
    fresh_path_ = false;
    last_sent_ = number;
  }

  // A path to `life` is open, which says `known`. What it has is delivered; what it can't say of, or
  // another life may have had, is marked or reported. Sending starts with the oldest one held.
  void resume(const node_life& life, const flow_position& point, restart_policy policy,
              const sink& report);

  // The path is gone. `left`: what it still held, in order and with numbers.
  void path_lost(std::vector<held_message> left);

  // Reports those held whose deadline has come.
  void expire(std::chrono::nanoseconds now, const sink& report);
  [[nodiscard]] std::optional<std::chrono::nanoseconds> earliest_deadline() const noexcept;
  // Reports the oldest one held; there must be one.
  void drop_oldest(errc reason, const sink& report);
  // Reports all that is held.
  void abandon(errc reason, const sink& report);

 private:
  void remove(std::deque<held_message>::iterator at) noexcept;

  std::uint64_t accepted_ = 0;
  std::uint64_t last_sent_ = 0;
  bool fresh_path_ = true;  // nothing was sent on this path
  node_life sent_to_;       // whose path the last one was
  std::deque<held_message> held_;
  std::size_t held_bytes_ = 0;
};

}  // namespace atbus::detail
