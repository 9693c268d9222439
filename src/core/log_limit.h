// How many lines a log has for each of many causes, however often they come about: so many in an
// interval, which is the same for all of them.
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
  // Further ones have no lines in that interval.
  static constexpr std::size_t causes_max = 16 * 1024;

  log_limit(std::chrono::nanoseconds interval, unsigned lines) noexcept
      : interval_(interval), lines_(lines) {}

  // How many lines there are left for that cause, this one counted. 0: it is left out.
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
