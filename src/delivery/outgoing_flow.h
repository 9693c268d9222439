// The messages from this incarnation of a node to one destination: their numbers, and those that no path has
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
//    sees numbers that only grow, with gaps only where a message was settled.
//  - A message leaves unsettled state by exactly one of: the channel's release (delivered), resume()
//    (delivered), or one call of the sink (not delivered, or unknown).
//  - not_delivered is said only of what can't have been handed to a handler, neither now nor later:
//    a destination that says how far it has come has let go of every earlier path before.
//  - After a loss of the path a message that may have arrived goes out again only to the same incarnation,
//    which drops it by its number if it has it, or marked as redelivered to a later incarnation.
//
// They hold if its owner sees to this:
//  - path_lost() before resume(), with all that the channel had not released, each with the mark of
//    its message head, and may_have_arrived unless the channel knows better.
//  - The position given to resume() was said after the destination had dropped every earlier path of
//    this flow: what it handles from one of them later would make a lie of it. That of a path that
//    stood by while another one carried messages is too old.
//  - Lives of the destination follow one another; none comes back.
//
// doc/design/delivery.md has the argument. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/policies.hpp"
#include "atbus/status.hpp"
#include "core/node_instance.h"
#include "delivery/flow_position.h"

namespace atbus::detail {

struct held_message {
  std::uint64_t number = 0;
  std::uint32_t type = 0;
  std::uint8_t flags = 0;  // of its head: what kind of message it is
  // Whether the incarnation that it was sent to last may have handled it.
  bool may_have_arrived = false;
  // Whether a successor of that incarnation may find it in shared memory; may_have_arrived is set then.
  bool may_be_inherited = false;
  // Marked: an earlier incarnation of the destination than that one may have handled it.
  bool redelivered = false;
  bool required = false;                 // delivery_policy::require
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
  // holds. It may take the message. Called last, so it may use the flow; must not throw but std::bad_alloc.
  using sink = std::function<void(held_message&&, errc reason)>;

  outgoing_flow() = default;
  // Its numbers begin behind that one: who knew this flow before it was forgotten here has not
  // forgotten how far it came.
  explicit outgoing_flow(std::uint64_t numbers_used) noexcept : accepted_(numbers_used) {}

  // The next message is accepted. Returns its number.
  std::uint64_t accept() noexcept { return ++accepted_; }
  [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_; }

  // Whether something is held: what is accepted later has to be held too.
  [[nodiscard]] bool holds() const noexcept { return !held_.empty(); }
  // Whether one that is held may have arrived. Looks at each.
  [[nodiscard]] bool is_in_doubt() const noexcept {
    return std::ranges::any_of(held_, &held_message::may_have_arrived);
  }
  [[nodiscard]] std::size_t held_messages() const noexcept { return held_.size(); }
  // With what it costs to keep each of them, so that a limit on it bounds empty messages too.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] static constexpr std::size_t cost(std::size_t message_bytes) noexcept {
    return sizeof(held_message) + 2 * sizeof(void*) + message_bytes;
  }

  // Keeps a message that was accepted just now,
  void hold(held_message message);
  // or the only one in that list; that takes no memory.
  void hold(std::list<held_message>&& one) noexcept;
  // The oldest one held; there must be one. Then `carried` once its bytes are in the path.
  [[nodiscard]] const held_message& front() const noexcept { return held_.front(); }
  void carried() noexcept {
    sent(held_.front().number);
    drop_first();
  }

  // Whether the destination counts on this number next. Any other has to be announced, with
  // last_sent() as the one before it.
  [[nodiscard]] bool follows(std::uint64_t number) const noexcept { return number == expected_; }
  // The highest number in the path, or what the destination had when it opened.
  [[nodiscard]] std::uint64_t last_sent() const noexcept { return last_sent_; }
  // That the next message has this number is in the path.
  void announced(std::uint64_t number) noexcept { expected_ = number; }
  // The message with this number is in the path.
  void sent(std::uint64_t number) noexcept {
    last_sent_ = number;
    expected_ = number + 1;
  }

  // So many messages were accepted and are in the path, each the one that followed.
  void passed(std::uint64_t count) noexcept {
    accepted_ += count;
    sent(accepted_);
  }

  // The path is gone. `left`: what it still held, in order and with numbers.
  void path_lost(std::list<held_message> left) noexcept;

  // A path to `incarnation` is open, which has come to `position`; path_lost() was called for the one before.
  // What it has is delivered; what it can't say of, or another incarnation may have had, is marked or
  // reported. Sending starts with the oldest one held. False, and nothing has changed: no destination
  // can have come there.
  [[nodiscard]] bool resume(const node_instance& instance, const flow_position& position,
                            restart_policy policy, const sink& report);

  // Reports those held whose deadline has come.
  void expire(std::chrono::nanoseconds now, const sink& report);
  [[nodiscard]] std::optional<std::chrono::nanoseconds> earliest_deadline() const noexcept;
  // Reports the oldest one held; there must be one. If the sink throws it stays.
  void drop_oldest(errc reason, const sink& report);
  // Reports all that is held,
  void abandon(errc reason, const sink& report);
  // or that of it which is not required.
  void abandon_unrequired(errc reason, const sink& report);

 private:
  using messages = std::list<held_message>;

  [[nodiscard]] bool is_possible(const flow_position& position, bool remembered) const noexcept;
  void drop_first() noexcept;
  // Moves a message, which is no longer held then, to the end of `to`; returns the one behind it.
  messages::iterator move_out(messages::iterator at, messages& to) noexcept;

  std::uint64_t accepted_ = 0;
  std::uint64_t last_sent_ = 0;
  std::uint64_t expected_ = 0;  // what the destination counts on next; 0: nothing was announced
  node_instance sent_to_;       // whose path the last one was,
  std::uint64_t session_ = 0;   // and what that remembered
  messages held_;
  std::size_t held_bytes_ = 0;
};

}  // namespace atbus::detail
