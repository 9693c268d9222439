// How long to spin before sleeping: as long as spinning has been paying lately, within a bound.
//
// Waking a halted core costs tens of microseconds on a virtual machine. If what one waits for comes
// sooner than that, spinning is cheaper; if not, it is waste. This is not known in advance, so: after
// each wait, look how long it took.
#pragma once

#include <algorithm>
#include <chrono>

#include "atbus/clock.hpp"

namespace atbus::detail {

inline void relax_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

class spin_budget {
 public:
  explicit spin_budget(std::chrono::nanoseconds longest) noexcept
      : longest_(longest), current_(longest) {}

  // Spins until `done()`, which may throw, or until the budget, or `deadline`, is used up. True: done.
  template <class Done>
  bool spin(std::chrono::nanoseconds start, std::chrono::nanoseconds deadline, Done&& done) {
    const auto end = std::min(moment_after(start, current_), deadline);
    while (now() < end) {
      for (int i = 0; i < 8; ++i) {
        if (done())
          return true;
        relax_cpu();
      }
    }
    return false;
  }

  // Told how long the whole wait took, spin and sleep.
  void learn(std::chrono::nanoseconds waited) noexcept {
    if (waited <= longest_) {
      current_ = longest_;
    } else {
      current_ /= 2;
      if (current_ < std::chrono::microseconds{1})
        current_ = std::chrono::nanoseconds{0};
    }
  }

 private:
  std::chrono::nanoseconds longest_;
  std::chrono::nanoseconds current_;
};

}  // namespace atbus::detail
