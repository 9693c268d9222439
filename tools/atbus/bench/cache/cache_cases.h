// Which keys a cache benchmark asks for, in which order, and what their values are. All of it
// follows from the seed and the number of the access, so every system gets the same.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "atbus/bench/cache/cache_workload.h"

namespace atbus::bench {

struct cache_case {
  std::uint64_t number = 0;
  bool is_hot = false;
};

// Values carry their case's number in their first and last 16 bytes: a wrong value, or half of one,
// is noticed at the cost of two cache lines.
struct cache_stamp {
  std::array<std::uint64_t, 2> first;
  std::array<std::uint64_t, 2> last;
};
inline constexpr std::size_t cache_stamp_half = sizeof(cache_stamp) / 2;

inline constexpr std::size_t cache_key_bytes = 16;
using cache_key = std::array<char, cache_key_bytes>;

class cache_cases {
 public:
  // The bounds of mixed sizes; the logarithm of a size is uniform between them.
  static constexpr std::uint64_t mixed_min = 100;
  static constexpr std::uint64_t mixed_max = 4096;

  explicit cache_cases(const cache_workload& work) noexcept : work_{work} {}

  // The access with that number.
  [[nodiscard]] cache_case at(std::uint64_t access) const noexcept {
    const double drawn = uniform(mix(work_.seed + 2 * access));
    const std::uint64_t which = mix(work_.seed + 2 * access + 1);
    const bool is_hot = drawn < work_.hot_access;
    return {is_hot ? which % work_.hot_cases
                   : work_.hot_cases + which % (work_.cases - work_.hot_cases),
            is_hot};
  }

  [[nodiscard]] std::size_t value_bytes(std::uint64_t number) const noexcept {
    if (work_.value_bytes != 0) {
      return work_.value_bytes;
    }
    static const double width = std::log(double{mixed_max} / double{mixed_min});
    return static_cast<std::size_t>(double{mixed_min} *
                                    std::exp(width * uniform(mix(~work_.seed ^ number))));
  }
  [[nodiscard]] std::size_t longest() const noexcept {
    return work_.value_bytes != 0 ? work_.value_bytes : mixed_max;
  }
  [[nodiscard]] static double mixed_mean() noexcept {
    return double{mixed_max - mixed_min} / std::log(double{mixed_max} / double{mixed_min});
  }

  [[nodiscard]] static cache_key key(std::uint64_t number) noexcept {
    cache_key key{'c', 'a', 's', 'e', '-', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'};
    char digits[20];
    const auto length = static_cast<std::size_t>(
        std::to_chars(digits, digits + sizeof digits, number).ptr - digits);
    std::memcpy(key.data() + key.size() - length, digits, length);
    return key;
  }

  [[nodiscard]] cache_stamp stamp(std::uint64_t number) const noexcept {
    return {{number, mix(number)}, {value_bytes(number), mix(~number)}};
  }
  // Whether these bytes are the whole value of that case.
  [[nodiscard]] bool is_value(std::uint64_t number, const void* value,
                              std::size_t length) const noexcept {
    const cache_stamp stamp = this->stamp(number);
    return length == value_bytes(number) &&
           std::memcmp(value, stamp.first.data(), cache_stamp_half) == 0 &&
           std::memcmp(static_cast<const char*>(value) + length - cache_stamp_half,
                       stamp.last.data(), cache_stamp_half) == 0;
  }

 private:
  // splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
  static constexpr std::uint64_t mix(std::uint64_t number) noexcept {
    std::uint64_t x = (number + 1) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  static double uniform(std::uint64_t bits) noexcept {
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

  const cache_workload& work_;
};

}  // namespace atbus::bench
