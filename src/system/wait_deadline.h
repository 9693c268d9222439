// How long a wait may take, from a timeout as users give it.
#pragma once

#include <chrono>
#include <cstdint>

#include "atbus/clock.hpp"

namespace atbus::detail {

class wait_deadline {
 public:
  // Negative, or longer than anybody lives: for ever. `start` is a moment of the clock's, the
  // system's if there is none.
  wait_deadline(std::chrono::nanoseconds start, std::chrono::nanoseconds timeout,
                const clock_source* clock = nullptr) noexcept
      : clock_(clock),
        at_(timeout < std::chrono::nanoseconds{0} || timeout > longest ? never : start + timeout) {}

  [[nodiscard]] std::chrono::nanoseconds at() const noexcept { return at_; }
  // What is left for one sleep in the kernel, at most `most` unless that is negative. As
  // kernel().epoll_wait wants it: negative for ever, 0 when the deadline has passed.
  [[nodiscard]] std::int64_t left_ns(std::chrono::nanoseconds most) const noexcept {
    std::int64_t left = -1;
    if (at_ != never) {
      const auto time = moment();
      left = time < at_ ? (at_ - time).count() : 0;
    }
    const bool shorten = most >= std::chrono::nanoseconds{0} && (left < 0 || left > most.count());
    return shorten ? most.count() : left;
  }
  [[nodiscard]] bool over() const noexcept { return at_ != never && moment() >= at_; }

 private:
  static constexpr std::chrono::nanoseconds longest = std::chrono::hours{24 * 365 * 100};
  static constexpr std::chrono::nanoseconds never = std::chrono::nanoseconds::max();

  [[nodiscard]] std::chrono::nanoseconds moment() const noexcept {
    return clock_ != nullptr ? clock_->now() : now();
  }

  const clock_source* clock_;
  std::chrono::nanoseconds at_;
};

}  // namespace atbus::detail
