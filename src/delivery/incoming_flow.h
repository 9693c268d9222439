// The messages from one life of another node: which number comes next, and which were handled.
// Duplicate suppression is this one number. A pure state machine.
//
// Guarantees: the numbers of messages it lets through only grow, so each is handled once; and no
// message gets a number before its path has said where it goes on.
#pragma once

#include <algorithm>
#include <cstdint>

namespace atbus::detail {

class incoming_flow {
 public:
  enum class verdict : std::uint8_t { deliver, duplicate, violation };

  incoming_flow() = default;
  // One that was remembered.
  explicit incoming_flow(std::uint64_t last) noexcept : last_(last) {}

  // A new path: it has to announce a number before the first message.
  void path_opened() noexcept { next_ = 0; }
  // The next message of the path has this number; those up to it that were not handled never come.
  // False: no sender may say that.
  [[nodiscard]] bool announce(std::uint64_t next) noexcept {
    if (next == 0 || (next_ != 0 && next < next_))
      return false;
    next_ = next;
    last_ = std::max(last_, next - 1);
    return true;
  }
  // A message has come.
  [[nodiscard]] verdict arrived() noexcept {
    if (next_ == 0)
      return verdict::violation;
    const std::uint64_t number = next_++;
    if (number <= last_)
      return verdict::duplicate;
    last_ = number;
    return verdict::deliver;
  }

  // The highest number that was handed on or passed over.
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }

 private:
  std::uint64_t next_ = 0;  // 0: not announced
  std::uint64_t last_ = 0;
};

}  // namespace atbus::detail
