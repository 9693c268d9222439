// The messages from one incarnation of another node: which number comes next, and which were handled.
// Duplicate suppression is this one number. A pure state machine.
//
// Guarantees: the numbers of messages it lets through only grow, so each is handled once; and no
// message gets a number before its path has said where it goes on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "delivery/flow_position.h"

namespace atbus::detail {

class incoming_flow {
 public:
  enum class verdict : std::uint8_t { deliver, duplicate, violation };

  incoming_flow() = default;
  // A new one; session_table says which session.
  explicit incoming_flow(std::uint64_t session) noexcept : position_{.session = session} {}

  // A new path: it has to announce a number before the first message. `turn` orders announcements by
  // when they were sent; 0: the sender does not say. False: the flow has moved on since.
  [[nodiscard]] bool move_to_path(std::uint64_t turn) noexcept {
    if (turn != 0 && turn < turn_)
      return false;
    next_ = 0;
    return true;
  }
  // The next message of the path has this number; those up to it that were not handled never come.
  // False: no sender may say that.
  [[nodiscard]] bool announce(std::uint64_t next, std::uint64_t turn) noexcept {
    if (next == 0 || next < next_)
      return false;
    turn_ = std::max(turn_, turn);
    next_ = next;
    position_.last = std::max(position_.last, next - 1);
    return true;
  }
  // Whether the next message of the path is one that was announced and not handled yet.
  [[nodiscard]] bool is_next_new() const noexcept { return next_ > position_.last; }
  // So many messages have come, the first of which is_next_new().
  void arrived_new(std::uint64_t messages) noexcept {
    if (messages == 0)
      return;
    next_ += messages;
    position_.last = next_ - 1;
  }
  // A message has come.
  [[nodiscard]] verdict arrived() noexcept {
    if (next_ == 0)
      return verdict::violation;
    const std::uint64_t number = next_++;
    if (number <= position_.last)
      return verdict::duplicate;
    position_.last = number;
    return verdict::deliver;
  }

  // Whether the sender has said where it goes on, on any path.
  [[nodiscard]] bool has_begun() const noexcept { return next_ != 0 || position_.last != 0; }

  // What to tell the sender, once every earlier path is dropped: nothing may come from one of them
  // after that.
  [[nodiscard]] const flow_position& position() const noexcept { return position_; }

 private:
  std::uint64_t next_ = 0;  // 0: not announced
  std::uint64_t turn_ = 0;  // of the last announcement
  flow_position position_;
};

}  // namespace atbus::detail
