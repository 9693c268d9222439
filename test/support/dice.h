// What a seed decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>

namespace atbus::test {

class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t word() { return engine_(); }
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  bool one_in(std::uint64_t many) { return below(many) == 0; }
  std::chrono::nanoseconds time(std::chrono::nanoseconds longest) {
    return std::chrono::nanoseconds{below(static_cast<std::uint64_t>(longest.count()) + 1)};
  }
  template <class T, std::size_t Size>
  T of(const T (&choice)[Size]) {
    return choice[below(Size)];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace atbus::test
