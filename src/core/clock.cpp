#include "atbus/clock.hpp"

#include <time.h>

#include <cassert>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace atbus {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) noexcept {
  timespec time{};
  clock_gettime(id, &time);  // fails only for an unknown clock id
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

#if defined(__x86_64__)
// Whether the processor's counter runs at one rate, in each of its states.
bool counts_evenly() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}

// A reading of the clock, and the counter at that time.
struct reading {
  std::uint64_t count = 0;
  std::chrono::nanoseconds time{0};
};
thread_local constinit reading last_reading;
// As many counts are no longer than recent_error on any processor: its counter has 1 GHz at least.
constexpr std::uint64_t recent_counts = 10'000;
#endif

class machine_clock final : public clock_source {
 public:
  std::chrono::nanoseconds now() const noexcept override { return atbus::now(); }
  std::chrono::nanoseconds recent() const noexcept override {
#if defined(__x86_64__)
    if (counts_evenly_) {
      const std::uint64_t count = __rdtsc();
      // Below the last one on a core that is behind: then the difference is huge.
      if (count - last_reading.count >= recent_counts) [[unlikely]]
        last_reading = {count, atbus::now()};
      return last_reading.time;
    }
#endif
    return now();
  }

 private:
#if defined(__x86_64__)
  const bool counts_evenly_ = counts_evenly();
#endif
};

}  // namespace

std::chrono::nanoseconds now() noexcept {
  return read_clock(CLOCK_MONOTONIC);
}

std::chrono::nanoseconds coarse_now() noexcept {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

const clock_source& system_clock_source() noexcept {
  static const machine_clock clock;
  return clock;
}

std::chrono::nanoseconds manual_clock::now() const noexcept {
  return std::chrono::nanoseconds{now_ns_.load(std::memory_order_relaxed)};
}

void manual_clock::advance(std::chrono::nanoseconds step) noexcept {
  assert(step >= step.zero());
  now_ns_.fetch_add(step.count(), std::memory_order_relaxed);
}

}  // namespace atbus
