// Sends for cache lines that are written soon. A store that waits for its line holds up all stores
// behind it, also those of registers that a function saves; a line that was sent for in time does not.
#pragma once

#include <cstddef>

namespace atbus::detail {

inline constexpr std::size_t line_ahead_bytes = 256;

// The lines of the messages behind one that begins at `at`. It does not matter if nothing is there.
inline void send_for_lines(const std::byte* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(at[line_ahead_bytes]));
  asm volatile("prefetchw %0" : : "m"(at[line_ahead_bytes + 64]));
#else
  __builtin_prefetch(at + line_ahead_bytes, 1);
  __builtin_prefetch(at + line_ahead_bytes + 64, 1);
#endif
}

}  // namespace atbus::detail
