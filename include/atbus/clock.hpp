/// @file
/// Monotonic time.
///
/// All times are nanoseconds since an arbitrary moment (on Linux, the start of the machine), which
/// is the same for every process on the host. They never go back, and changes of the wall clock do
/// not affect them.
///
/// Threads: now() and coarse_now() may be called from any thread and from signal handlers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "atbus/detail/export.hpp"

namespace atbus {

/// The moment `time` after `moment`. A negative time counts as 0. nanoseconds::max() means "never";
/// a sum beyond it is "never" too.
constexpr std::chrono::nanoseconds moment_after(std::chrono::nanoseconds moment,
                                                std::chrono::nanoseconds time) noexcept {
  constexpr auto never = std::chrono::nanoseconds::max();
  if (time <= std::chrono::nanoseconds{0})
    return moment;
  return moment > never - time ? never : moment + time;
}

/// Exact: CLOCK_MONOTONIC (clock_gettime(2)).
ATBUS_API std::chrono::nanoseconds now() noexcept;

/// Cheaper: CLOCK_MONOTONIC_COARSE, up to one timer tick old (1 to 10 ms), never ahead of now().
ATBUS_API std::chrono::nanoseconds coarse_now() noexcept;

/// The clock of code that must also run on simulated time. The owner of a clock keeps it alive for
/// as long as references to it exist.
class ATBUS_API clock_source {
 public:
  clock_source() = default;
  virtual ~clock_source() = default;
  /// The time of this clock, as of atbus::now().
  virtual std::chrono::nanoseconds now() const noexcept = 0;
  /// now(), or a time before it by at most recent_error: for many moments in a row, at a third of
  /// the cost.
  virtual std::chrono::nanoseconds recent() const noexcept { return now(); }
  /// The most by which recent() is behind.
  static constexpr std::chrono::nanoseconds recent_error = std::chrono::microseconds{10};

 protected:
  /// Lets derived clocks be copied.
  clock_source(const clock_source&) = default;
  /// Lets derived clocks be assigned.
  clock_source& operator=(const clock_source&) = default;
};

/// The machine's clock: atbus::now(). Lives as long as the process.
ATBUS_API const clock_source& system_clock_source() noexcept;

/// A clock that advances only when told to, for tests and the simulator. Any thread may read and
/// advance it.
class ATBUS_API manual_clock final : public clock_source {
 public:
  /// Makes a clock that shows `start`.
  explicit manual_clock(std::chrono::nanoseconds start = {}) noexcept : now_ns_{start.count()} {}

  /// The moment to which the clock was advanced.
  std::chrono::nanoseconds now() const noexcept override;

  /// Advances the clock by `step`, which must not be negative (asserted).
  void advance(std::chrono::nanoseconds step) noexcept;

 private:
  // Relaxed throughout: a reading, not a signal that other data is ready.
  std::atomic<std::int64_t> now_ns_;
};

}  // namespace atbus
