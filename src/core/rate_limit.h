// Limits how often something happens: so many times a second, and as many as in one second at once (a token
// bucket).
//
// One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace atbus::detail {

class rate_limit {
 public:
  // 0: no limit.
  explicit rate_limit(std::uint32_t per_second) noexcept
      : pause_(per_second == 0 ? std::chrono::nanoseconds{0} : second / per_second) {}

  // Whether it may happen now; then it counts.
  [[nodiscard]] bool take(std::chrono::nanoseconds now) noexcept {
    const auto next = after(now);
    if (next > now)
      return false;
    next_ = next;
    return true;
  }
  // It happens now, whether it may or not.
  void force(std::chrono::nanoseconds now) noexcept { next_ = after(now); }
  // When it may happen again.
  [[nodiscard]] std::chrono::nanoseconds free_at() const noexcept { return next_ + pause_; }

 private:
  static constexpr std::chrono::nanoseconds second = std::chrono::seconds{1};

  [[nodiscard]] std::chrono::nanoseconds after(std::chrono::nanoseconds now) const noexcept {
    return std::max(next_, now - second) + pause_;
  }

  std::chrono::nanoseconds pause_;    // between two; 0: no limit
  std::chrono::nanoseconds next_{0};  // when the latest would have been, at an even pace
};

}  // namespace atbus::detail
