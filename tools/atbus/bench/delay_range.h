// A range of times, as options have it: "50..100ms", "900us..1s", "20ms".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atbus::bench {

struct delay_range {
  std::int64_t min_ns = 0;
  std::int64_t max_ns = 0;

  friend bool operator==(const delay_range&, const delay_range&) = default;
};

inline constexpr std::int64_t longest_delay_ns = 10'000'000'000;

// Empty if the text is none: not a number, without a unit (us, ms or s; that of the second holds for
// the first), the first above the second, or one above 10 s.
std::optional<delay_range> parse_delay_range(std::string_view text) noexcept;

}  // namespace atbus::bench
