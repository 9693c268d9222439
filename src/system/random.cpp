#include "system/random.h"

#include <sys/random.h>

#include <ctime>

namespace atbus::detail {

std::uint64_t random_word() noexcept {
  std::uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word)
    word = wall_clock_ns() * 0x9e3779b97f4a7c15U;
  return word;
}

std::uint64_t wall_clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace atbus::detail
