// The messages from one incarnation of another node: which number comes next, and which were handled. This
// one number suppresses duplicates. A pure state machine.
//
// Guarantees: the numbers of accepted messages only grow, so each message is handled once. No message gets a
// number before its path has announced one.
//
// The position settles messages that were refused too. So the words that say so belong to the flow: whoever remembers
// or forgets the one does so with the other. Copies share them; one of the copies is in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "delivery/flow_position.h"
#include "delivery/refused_word.h"

namespace atbus::detail {

class incoming_flow {
 public:
  enum class verdict : std::uint8_t { deliver, duplicate, violation };

  incoming_flow() = default;
  // A new flow; session_table assigns the session.
  explicit incoming_flow(std::uint64_t session) noexcept : position_{.session = session} {}

  // Moves to a new path, which has to announce a number before its first message. `turn` orders
  // announcements by the time of sending; 0: unknown. False: the flow has moved to a later path.
  [[nodiscard]] bool move_to_path(std::uint64_t turn) noexcept {
    if (turn != 0 && turn < turn_)
      return false;
    next_ = 0;
    return true;
  }
  // The next message of the path has this number; earlier ones that were not handled never come. False: the
  // announcement violates the protocol.
  [[nodiscard]] bool announce(std::uint64_t next, std::uint64_t turn) noexcept {
    if (next == 0 || next < next_)
      return false;
    turn_ = std::max(turn_, turn);
    next_ = next;
    position_.last = std::max(position_.last, next - 1);
    return true;
  }
  // Whether the next message of the path was announced and not handled yet.
  [[nodiscard]] bool is_next_new() const noexcept { return next_ > position_.last; }
  // Its number, if it was announced.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  // So many messages have arrived; is_next_new() was true for the first.
  void arrived_new(std::uint64_t messages) noexcept {
    if (messages == 0)
      return;
    next_ += messages;
    position_.last = next_ - 1;
  }
  // A message has arrived.
  [[nodiscard]] verdict arrived() noexcept {
    if (next_ == 0)
      return verdict::violation;
    const std::uint64_t number = next_++;
    if (number <= position_.last)
      return verdict::duplicate;
    position_.last = number;
    return verdict::deliver;
  }

  // Words of refused messages, the oldest first, which are in no link.
  [[nodiscard]] bool owes_words() const noexcept { return words_ != nullptr && !words_->empty(); }
  [[nodiscard]] std::size_t words_owed() const noexcept {
    return words_ != nullptr ? words_->size() : 0;
  }
  // Makes them, without memory it throws.
  [[nodiscard]] std::vector<refused_word>& words() {
    if (words_ == nullptr)
      words_ = std::make_shared<std::vector<refused_word>>();
    return *words_;
  }

  // Whether the sender has announced a number on any path.
  [[nodiscard]] bool has_begun() const noexcept { return next_ != 0 || position_.last != 0; }

  // The position to tell the sender. Only after every earlier path is dropped: no message may arrive from one
  // of them afterwards.
  [[nodiscard]] const flow_position& position() const noexcept { return position_; }

 private:
  std::uint64_t next_ = 0;  // 0: not announced
  std::uint64_t turn_ = 0;  // of the last announcement
  flow_position position_;
  std::shared_ptr<std::vector<refused_word>> words_;  // null: there were none
};

}  // namespace atbus::detail
