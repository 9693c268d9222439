// The messages from this incarnation of a node to one destination: their numbers, and the messages that no
// path has taken yet. A pure state machine without clock or channel: its owner moves messages to the path and
// reports the results.
//
// Each accepted message has a number, one above the previous. It is in one of these places:
//
//   held        here, with its bytes: there is no path, or earlier messages wait too
//   in the path its bytes are in a channel, until the destination has handled it
//   settled     delivered, or reported with one of the other two outcomes, exactly once
//
// Guarantees:
//  - Everything in the path is older than everything held, and both are in order; so the destination
//    sees numbers that only grow, with gaps only where a message was settled.
//  - A message is settled by exactly one of: the channel's release (delivered), resume() (delivered), or one
//    call of the sink (not delivered, or unknown).
//  - not_delivered is reported only for a message that no handler has got or will get: a destination drops
//    every earlier path before it tells its position.
//  - After a loss of the path, a message that may have arrived is sent again only to the same incarnation,
//    which drops a duplicate by its number, or, marked as redelivered, to a later incarnation.
//
// The owner has to ensure this:
//  - It calls path_lost() before resume(), with all messages that the channel had not released. Each has the
//    flags of its head, and may_have_arrived unless the channel knows better.
//  - The destination told the position given to resume() after it had dropped every earlier path of this
//    flow; otherwise it could handle further messages from one of them. So the position of a path that was
//    idle while another one carried messages is too old.
//  - Incarnations of the destination follow one another; none comes back.
//
// doc/design/delivery.md has the argument. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <utility>
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
  std::uint8_t flags = 0;  // flags of its head: the kind of message
  // Whether the incarnation that it was last sent to may have handled it.
  bool may_have_arrived = false;
  // Whether the next incarnation may find it in shared memory. Then may_have_arrived is set too.
  bool may_be_inherited = false;
  // Whether an even earlier incarnation of the destination may have handled it.
  bool redelivered = false;
  bool required = false;                 // delivery_policy::require
  bool exempt = false;                   // of a blob: no policy drops it
  std::chrono::nanoseconds deadline{0};  // 0: none
  std::vector<std::byte> bytes;

  // The outcome to report if it is not sent again.
  [[nodiscard]] errc outcome() const noexcept {
    return may_have_arrived || redelivered ? errc::outcome_unknown : errc::not_delivered;
  }
};

class outgoing_flow {
 public:
  // Called for each message that is settled without delivery, with the reason; its outcome() is final. May
  // take the message. Called last, so it may use the flow. Only that of drop_oldest() and drop_oldest_by_policy() may
  // throw: std::bad_alloc, and then it has not taken the message.
  using sink = std::function<void(held_message&&, errc reason)>;

  outgoing_flow() = default;
  // Numbers begin behind `numbers_used`: a destination may remember the position of an earlier flow that this
  // node has forgotten.
  explicit outgoing_flow(std::uint64_t numbers_used) noexcept : accepted_(numbers_used) {}

  // Accepts the next message and returns its number.
  std::uint64_t accept() noexcept { return ++accepted_; }
  [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_; }

  // Whether messages are held. Then later messages have to be held too.
  [[nodiscard]] bool holds() const noexcept { return !held_.empty(); }
  // Whether a held message may have arrived. Looks at each.
  [[nodiscard]] bool is_in_doubt() const noexcept {
    return std::ranges::any_of(held_, &held_message::may_have_arrived);
  }
  [[nodiscard]] std::size_t held_messages() const noexcept { return held_.size(); }
  // Includes the overhead of each message, so that a limit bounds empty messages too.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_ + exempt_bytes_; }
  // Of those that policies apply to, or of the others.
  [[nodiscard]] std::size_t held_bytes(bool exempt) const noexcept {
    return exempt ? exempt_bytes_ : held_bytes_;
  }
  [[nodiscard]] static constexpr std::size_t cost(std::size_t message_bytes) noexcept {
    return sizeof(held_message) + 2 * sizeof(void*) + message_bytes;
  }

  // Calls `each` with each held message, the oldest first.
  template <class Each>
  void for_each(Each&& each) const {
    for (const held_message& one : held_)
      each(one);
  }
  // Takes the first held message out for which `is_it` says so, without a report: its owner tells the outcome.
  // False: there is none, or it may have arrived.
  template <class Is>
  bool withdraw(Is&& is_it) noexcept {
    const auto found = std::ranges::find_if(held_, is_it);
    if (found == held_.end() || found->may_have_arrived || found->redelivered)
      return false;
    messages out;
    move_out(found, out);
    return true;
  }
  // Drops all held messages for which `is_it` says so, without a report.
  template <class Is>
  void drop_if(Is&& is_it) noexcept {
    (void)take_if(is_it);
  }
  // Holds a message that has just been accepted.
  void hold(held_message message);
  // Holds the only message of the list, without allocating.
  void hold(std::list<held_message>&& one) noexcept;
  // The oldest held message; there must be one. Call `carried` once its bytes are in the path.
  [[nodiscard]] const held_message& front() const noexcept { return held_.front(); }
  void carried() noexcept {
    sent(held_.front().number);
    drop_first();
  }

  // Whether the destination expects this number next. Any other has to be announced, with last_sent() as the
  // one before it.
  [[nodiscard]] bool follows(std::uint64_t number) const noexcept { return number == expected_; }
  // The highest number in the path, or what the destination had when it opened.
  [[nodiscard]] std::uint64_t last_sent() const noexcept { return last_sent_; }
  // The announcement of this number is in the path.
  void announced(std::uint64_t number) noexcept { expected_ = number; }
  // The message with this number is in the path.
  void sent(std::uint64_t number) noexcept {
    last_sent_ = number;
    expected_ = number + 1;
  }

  // So many messages were accepted and are in the path, with consecutive numbers.
  void passed(std::uint64_t count) noexcept {
    accepted_ += count;
    sent(accepted_);
  }

  // The path is gone. `left`: its unsettled messages, in order and with numbers.
  void path_lost(std::list<held_message> left) noexcept;

  // A path to `instance` is open, which is at `position`; path_lost() was called for the previous path.
  // Messages up to the position are delivered. Messages that another incarnation may have had are marked or
  // reported. Sending starts with the oldest held message. False, without effect: the position is impossible.
  [[nodiscard]] bool resume(const node_instance& instance, const flow_position& position,
                            restart_policy policy, const sink& report);

  // Reports the held messages whose deadline has passed.
  void expire(std::chrono::nanoseconds now, const sink& report);
  [[nodiscard]] std::optional<std::chrono::nanoseconds> earliest_deadline() const noexcept;
  // Reports the oldest held message; there must be one. If the sink throws, the message stays.
  void drop_oldest(errc reason, const sink& report);
  // The same for the oldest one that is not exempt; there must be one.
  void drop_oldest_by_policy(errc reason, const sink& report);
  // Reports all held messages.
  void abandon(errc reason, const sink& report);
  // Reports the held messages for which `is_it` says so.
  template <class Is>
  void abandon_if(Is&& is_it, errc reason, const sink& report) {
    messages given_up = take_if(is_it);
    for (held_message& message : given_up)
      report(std::move(message), reason);
  }

 private:
  using messages = std::list<held_message>;

  [[nodiscard]] bool is_possible(const flow_position& position, bool remembered) const noexcept;
  void drop_first() noexcept;
  void drop(messages::iterator which, errc reason, const sink& report);
  [[nodiscard]] std::size_t& bytes_of(const held_message& which) noexcept {
    return which.exempt ? exempt_bytes_ : held_bytes_;
  }
  // Moves a held message to the end of `to`; returns the one after it.
  messages::iterator move_out(messages::iterator at, messages& to) noexcept;
  template <class Is>
  messages take_if(Is& is_it) noexcept {
    static_assert(noexcept(is_it(std::declval<const held_message&>())));  // else messages are lost
    messages taken;
    for (auto at = held_.begin(); at != held_.end();)
      at = is_it(*at) ? move_out(at, taken) : std::next(at);
    return taken;
  }

  std::uint64_t accepted_ = 0;
  std::uint64_t last_sent_ = 0;
  std::uint64_t expected_ = 0;  // the number the destination expects next; 0: nothing was announced
  node_instance sent_to_;       // the destination of the last path
  std::uint64_t session_ = 0;   // and its session
  messages held_;
  std::size_t held_bytes_ = 0;    // without those that are exempt
  std::size_t exempt_bytes_ = 0;  // of these
};

}  // namespace atbus::detail
