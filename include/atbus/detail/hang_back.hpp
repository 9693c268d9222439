// Decides when a receiver waits a moment before it reads.
//
// A receiver that is a little faster than its sender reads each message as soon as it appears. Both sides
// then stall on the same cache lines for every message, and throughput falls to a third. If the receiver
// waits most of a microsecond when little is there, the sender runs ahead, and full cache lines move between
// the cores. Where a line takes long, a longer wait pays. But a ping-pong must not wait, and the time to move a
// line between cores differs between machines, and on virtual machines from minute to minute.
//
// So this class measures. From time to time it tries one wait. If the wait brings fewer than two messages,
// the sender is not streaming, and the pause until the next trial grows. If it brings more, waits, longer waits
// and none are timed, at most some hundred microseconds each. The fastest way is used until a wait brings nothing or until
// the next timing. Figures: doc/design/segment.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "atbus/clock.hpp"
#include "atbus/detail/export.hpp"

namespace atbus::detail {

class hang_back {
 public:
  static constexpr std::uint64_t little = 512;  // bytes: with more than this at hand, read at once
  static constexpr std::chrono::nanoseconds moment{750};
  static constexpr std::chrono::nanoseconds long_moment{2500};
  static constexpr double worth_more = 1.04;            // times the rate: messages wait, too
  static constexpr std::uint32_t longest_pause = 4096;  // looks between two trials
  static constexpr std::size_t streaming = 2;  // fewest messages per wait of a streaming sender
  static constexpr std::size_t long_streaming = 32;    // fewest messages of nearly all longer waits
  static constexpr std::uint32_t poor_waits_most = 8;  // that bring fewer, of those that are timed
  static constexpr std::uint32_t timed_waits = 64;
  static constexpr std::uint32_t timed_eager_looks = 1024;  // they are short
  static constexpr std::uint32_t waits_between_timings = 8192;

  // Whether to wait now. Called at each look that found little.
  [[nodiscard]] bool due() noexcept {
    if (phase_ != phase::eager)
      return phase_ != phase::timing_eager;
    if (--looks_left_ != 0)
      return false;
    looks_left_ = pause_;  // for a poll that ends before it learns
    return true;
  }

  // Called after each look, with the number of messages handled and whether the look waited.
  void learn(bool waited, std::size_t messages) noexcept {
    if (phase_ == phase::eager && !waited) [[likely]]
      return;
    advance(waited, messages);
  }

  // Spins for a moment, or a longer one where that is faster.
  ATBUS_API void wait() const noexcept;

 private:
  enum class phase : std::uint8_t { eager, timing_waits, timing_long_waits, timing_eager, waiting };

  ATBUS_API void advance(bool waited, std::size_t messages) noexcept;
  void enter(phase next, std::uint32_t looks) noexcept;
  [[nodiscard]] double rate() const noexcept;  // messages per nanosecond since `enter`
  void give_up() noexcept;

  phase phase_ = phase::eager;
  bool is_long_ = false;  // of waits
  std::uint32_t pause_ = 1;
  std::uint32_t looks_left_ = 1;  // in this phase
  std::uint64_t messages_ = 0;    // in this phase
  std::uint32_t poor_waits_ = 0;  // of those that are timed
  std::chrono::nanoseconds since_{0};
  double rate_waiting_ = 0;
};

}  // namespace atbus::detail
