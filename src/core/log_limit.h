// Limits log lines: each cause gets a fixed number of lines per interval. All causes share the interval.
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace atbus::detail {

class log_limit {
 public:
  // Causes beyond this number get no lines in an interval.
  static constexpr std::size_t causes_max = 16 * 1024;

  log_limit(std::chrono::nanoseconds interval, unsigned lines) noexcept
      : interval_(interval), lines_(lines) {}

  // The number of lines left for that cause, including this one. 0: do not log it.
  [[nodiscard]] unsigned take(std::uint64_t cause, std::chrono::nanoseconds now) {
    if (now - since_ >= interval_) {
      since_ = now;
      taken_.clear();
    }
    if (taken_.size() == causes_max && !taken_.contains(cause))
      return 0;
    unsigned& taken = taken_[cause];
    return taken == lines_ ? 0 : lines_ - taken++;
  }

 private:
  const std::chrono::nanoseconds interval_;
  const unsigned lines_;
  std::chrono::nanoseconds since_{0};
  std::unordered_map<std::uint64_t, unsigned> taken_;
};

}  // namespace atbus::detail
