// Random parts of times, so that many programs do not do the same at the same moment.
//
// One thread.
#pragma once

#include <sys/random.h>

#include <chrono>
#include <cstdint>
#include <random>

#include "atbus/clock.hpp"

namespace atbus::detail {

class random_pause {
 public:
  // Up to `most`.
  [[nodiscard]] std::chrono::nanoseconds up_to(std::chrono::nanoseconds most) {
    return std::chrono::nanoseconds{
        std::uniform_int_distribution<std::int64_t>{0, most.count()}(source_)};
  }
  // From half of it up to all of it.
  [[nodiscard]] std::chrono::nanoseconds about(std::chrono::nanoseconds time) {
    return time / 2 + up_to(time / 2);
  }

 private:
  static std::uint64_t seed() noexcept {
    std::uint64_t word = 0;
    if (getrandom(&word, sizeof word, 0) != sizeof word)
      word = static_cast<std::uint64_t>(now().count());
    return word;
  }

  std::mt19937_64 source_{seed()};
};

}  // namespace atbus::detail
