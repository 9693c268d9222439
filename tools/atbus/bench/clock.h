// The benchmarks' own clock and pauses; they share nothing with the library they measure.
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

namespace atbus::bench {

inline constexpr std::int64_t ns_per_s = 1'000'000'000;

// Nanoseconds of CLOCK_MONOTONIC, the same for every process on the host.
inline std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * ns_per_s + now.tv_nsec;
}

inline void sleep_ns(std::int64_t ns) noexcept {
  const timespec pause{ns / ns_per_s, ns % ns_per_s};
  nanosleep(&pause, nullptr);
}

// Tells the core that this is a spin loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// For a loop that waits for another worker. One that shares its core with that worker must let it
// run.
inline void relax(bool shares_core) noexcept {
  if (shares_core) {
    sched_yield();
  } else {
    spin_pause();
  }
}

}  // namespace atbus::bench
