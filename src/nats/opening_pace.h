// How many openings of links are looked at: each costs a key, a socket pair, and work of the node.
//
// `burst` at once, then one for each `interval`. So all ends of a full carrier can come back within the time that
// each waits for its answer, and strangers can't take the whole thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atbus::detail {

class opening_pace {
 public:
  using time = std::chrono::nanoseconds;

  static constexpr std::size_t burst = 1024;
  static constexpr time interval = std::chrono::milliseconds{1};

  [[nodiscard]] std::size_t allowed(time now) const noexcept {
    const time debt = std::max(rested_at_ - now, time{0});
    const auto used = static_cast<std::size_t>((debt + interval - time{1}) / interval);
    return burst - std::min(used, burst);
  }
  // At most as many as are allowed.
  void took(std::size_t count, time now) noexcept {
    rested_at_ = std::max(rested_at_, now) + static_cast<std::int64_t>(count) * interval;
  }
  // When one is allowed.
  [[nodiscard]] time due_at() const noexcept {
    return rested_at_ - static_cast<std::int64_t>(burst - 1) * interval;
  }

 private:
  time rested_at_{0};  // from then on a whole burst is allowed
};

}  // namespace atbus::detail
