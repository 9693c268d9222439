// Time that only moves forward.
//
// All points are nanoseconds since an arbitrary moment (on Linux: the start of the machine), the
// same for every process on the host, never set back and untouched by changes of the wall clock.
// now() and coarse_now() are callable from any thread and from signal handlers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "atbus/detail/export.hpp"

namespace atbus {

// The moment `time` after another one. The last moment that can be said stands for "never": what would be
// later is that. A negative time counts as 0.
constexpr std::chrono::nanoseconds moment_after(std::chrono::nanoseconds moment,
                                                std::chrono::nanoseconds time) noexcept {
  constexpr auto never = std::chrono::nanoseconds::max();
  if (time <= std::chrono::nanoseconds{0})
    return moment;
  return moment > never - time ? never : moment + time;
}

// Exact: CLOCK_MONOTONIC (clock_gettime(2)).
ATBUS_API std::chrono::nanoseconds now() noexcept;

// Cheaper: CLOCK_MONOTONIC_COARSE, up to a timer tick old (1 to 10 ms), never ahead of now().
ATBUS_API std::chrono::nanoseconds coarse_now() noexcept;

// What code asks that must also run on simulated time. The owner of the clock outlives whoever
// holds a reference to it.
class ATBUS_API clock_source {
 public:
  clock_source() = default;
  virtual ~clock_source() = default;
  virtual std::chrono::nanoseconds now() const noexcept = 0;

 protected:
  clock_source(const clock_source&) = default;
  clock_source& operator=(const clock_source&) = default;
};

// The clock of the machine, asking atbus::now(). Lives for the whole process.
ATBUS_API const clock_source& system_clock_source() noexcept;

// A clock that stands still until told otherwise, for tests and the simulator. Any thread may read
// and move it.
class ATBUS_API manual_clock final : public clock_source {
 public:
  explicit manual_clock(std::chrono::nanoseconds start = {}) noexcept : now_ns_{start.count()} {}

  std::chrono::nanoseconds now() const noexcept override;

  // Moves forward; `step` must not be negative.
  void advance(std::chrono::nanoseconds step) noexcept;

 private:
  // Relaxed throughout: a reading, not a signal that other data is ready.
  std::atomic<std::int64_t> now_ns_;
};

}  // namespace atbus
