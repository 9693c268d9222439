// Random numbers, and the time of day.
#pragma once

#include <cstdint>

namespace atbus::detail {

// From the kernel; if that fails, from the time.
[[nodiscard]] std::uint64_t random_word() noexcept;
// Nanoseconds since 1970.
[[nodiscard]] std::uint64_t wall_clock_ns() noexcept;

}  // namespace atbus::detail
