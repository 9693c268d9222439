// When a receiver should wait a moment before it reads.
//
// A receiver a little faster than its sender reads each message the moment it appears: both sides
// then stall on the same cache lines for every message, and throughput falls to a third. Waiting
// most of a microsecond when little is there lets the sender run ahead, so that lines change cores
// full. But a ping-pong must not wait for what will not come, and how long a line takes to change
// cores differs between machines, and on virtual ones from minute to minute.
//
// So nothing is assumed. Now and then one wait is tried. If it brings less than two messages, the
// sender was not streaming: try again ever more rarely. If it brings more, both ways are timed, a
// few microseconds each, and the faster one stays until a wait brings nothing or the next timing.
// Figures: doc/design/segment.md.
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
  static constexpr std::uint32_t longest_pause = 4096;  // looks between two trials
  static constexpr std::size_t streaming = 2;           // messages a wait brings if it goes on
  static constexpr std::uint32_t timed_waits = 64;
  static constexpr std::uint32_t timed_eager_looks = 64;
  static constexpr std::uint32_t waits_between_timings = 8192;

  // Asked at each look that found little.
  [[nodiscard]] bool due() noexcept {
    return phase_ == phase::eager ? --looks_left_ == 0 : phase_ != phase::timing_eager;
  }

  // Told after each look how many messages were handled, and whether it had waited.
  void learn(bool waited, std::size_t messages) noexcept {
    if (phase_ == phase::eager && !waited) [[likely]]
      return;
    advance(waited, messages);
  }

  // Spins for `moment`.
  ATBUS_API static void wait() noexcept;

 private:
  enum class phase : std::uint8_t { eager, timing_waits, timing_eager, waiting };

  ATBUS_API void advance(bool waited, std::size_t messages) noexcept;
  void enter(phase next, std::uint32_t looks) noexcept;
  [[nodiscard]] double rate() const noexcept;  // messages per nanosecond since `enter`
  void give_up() noexcept;

  phase phase_ = phase::eager;
  std::uint32_t pause_ = 1;
  std::uint32_t looks_left_ = 1;  // of this phase
  std::uint64_t messages_ = 0;    // in this phase
  std::chrono::nanoseconds since_{0};
  double rate_waiting_ = 0;
};

}  // namespace atbus::detail
