#include "atbus/clock.hpp"

#include <time.h>

#include <cassert>

namespace atbus {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) noexcept {
  timespec time{};
  clock_gettime(id, &time);  // fails only for an unknown clock id
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

class machine_clock final : public clock_source {
 public:
  std::chrono::nanoseconds now() const noexcept override { return atbus::now(); }
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
