// The fan-out of a request, for systems without tasks of their own: the body is decoded, so many
// timers run, and the body is encoded again when the last one is over.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bench/clock.h"
#include "harness/options.h"

namespace atbus::compare {

// Vigna's xorshift64*.
class random_delays {
 public:
  explicit random_delays(const options& run) noexcept
      : min_us_{run.delay_min_us},
        width_us_{static_cast<std::uint64_t>(run.delay_max_us - run.delay_min_us) + 1} {}

  std::chrono::microseconds next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const std::uint64_t drawn = state_ * 0x2545f4914f6cdd1dULL;
    return std::chrono::microseconds{min_us_ + static_cast<std::int64_t>(drawn % width_us_)};
  }

 private:
  std::int64_t min_us_;
  std::uint64_t width_us_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

template <class Caller>
class waiting_requests {
 public:
  explicit waiting_requests(const options& run) : tasks_{run.fan_out}, delays_{run} {}

  void begin(Caller from, std::string_view body) {
    auto* const one =
        new request{std::move(from), nlohmann::json::parse(body), tasks_};  // deleted by reply_due
    for (std::uint64_t i = 0; i != tasks_; ++i) {
      const auto delay = std::chrono::nanoseconds{delays_.next()};
      timers_.push({bench::now_ns() + delay.count(), one});
    }
  }

  // How long a poll may sleep.
  std::chrono::milliseconds until_due(std::chrono::milliseconds most) const noexcept {
    if (timers_.empty()) {
      return most;
    }
    const std::int64_t left_ns = timers_.top().due_ns - bench::now_ns();
    const std::chrono::milliseconds left{
        std::max<std::int64_t>((left_ns + 999'999) / 1'000'000, 0)};
    return std::min(left, most);
  }

  // reply(Caller&, std::span<const std::byte>)
  template <class Reply>
  void reply_due(Reply&& reply) {
    const std::int64_t now = bench::now_ns();
    while (!timers_.empty() && timers_.top().due_ns <= now) {
      request* const one = timers_.top().of;
      timers_.pop();
      if (--one->left == 0) {
        const std::unique_ptr<request> last{one};
        const std::string encoded = one->document.dump();
        reply(one->from, std::as_bytes(std::span{encoded}));
      }
    }
  }

 private:
  struct request {
    Caller from;
    nlohmann::json document;
    std::uint64_t left;
  };
  struct timer {
    std::int64_t due_ns;
    request* of;
    bool operator>(const timer& other) const noexcept { return due_ns > other.due_ns; }
  };

  std::uint64_t tasks_;
  random_delays delays_;
  std::priority_queue<timer, std::vector<timer>, std::greater<>> timers_;
};

}  // namespace atbus::compare
