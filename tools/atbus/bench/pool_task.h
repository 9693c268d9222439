// One measurement of one allocator, made in a process of its own.
//
// A table of slots is filled; then, over and over, a burst of pieces from random slots is given
// back and the slots are filled again: messages come and go in batches, and no two in the order in
// which they came. Every piece is written when it is taken and checked when it is given back.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace atbus::bench {

enum class pool_test : std::uint8_t { small, large, mixed };
inline constexpr std::array pool_tests{pool_test::small, pool_test::large, pool_test::mixed};

inline constexpr std::size_t small_piece_bytes = 24;
inline constexpr std::size_t large_piece_bytes = 85 * 1024;
// In the mixed test there is one large piece for so many small ones.
inline constexpr std::size_t small_pieces_per_large = 1000;

// What "touch" means: enough to see the page faults, or all of it.
enum class pool_touch : std::uint8_t { page, all };

struct pool_task {
  pool_test test = pool_test::small;
  bool with_malloc = false;  // malloc, whichever library provides it, instead of the pool
  bool prefault = false;
  bool huge_pages = false;  // the pool's alone
  pool_touch touch = pool_touch::page;
  std::uint32_t burst = 256;  // pieces given back at once, at most
  double scale = 1;           // of the number of operations
};

// Travels through a pipe as it is.
struct pool_figures {
  std::uint64_t operations;
  std::int64_t elapsed_ns;
  std::int64_t cpu_ns;
  std::int64_t user_ns;
  std::int64_t system_ns;
  std::uint64_t major_faults;
  std::uint64_t minor_faults;
  std::uint64_t max_rss_kib;
  std::int64_t longest_pause_ns;  // of a single operation, in a second pass that times each
  std::uint64_t preempted;  // operations of that pass that the kernel interrupted: not counted
  std::uint64_t damaged;    // pieces that were not as they had been written
  std::uint64_t refused;    // no memory
  std::array<char, 160> library;   // that provides malloc, if not the C library
  std::array<char, 320> obtained;  // what the pool said of its memory, or why there is none
};

[[nodiscard]] pool_figures run_pool_task(const pool_task& task);

}  // namespace atbus::bench
