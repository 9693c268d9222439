// The arena's free space: segregated lists of free runs, with immediate coalescing through boundary
// tags (Knuth, The Art of Computer Programming 1, 2.5). An item that fits into no run is split over
// several, so that free space is never lost to fragmentation.
//
// A free run holds its own links: the next and the previous run of its list, its length, and the
// length again in its last word. All of it is made anew when a kept arena is opened.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "item.h"

namespace cache {

struct free_run {
  block start;
  std::uint32_t length;
};

class extent_heap {
 public:
  // Manages the blocks from `first` to `end`, of which none is free yet. The block at `end` is a
  // sentinel that belongs to the heap too.
  void start(block_memory memory, block first, block end) noexcept;
  // Blocks that were never an extent. `length` may be 0.
  void add_free(block start, std::uint32_t length) noexcept;

  // An extent with room for `bytes`, marked as a head; 0 if no free run is long enough.
  [[nodiscard]] block take(std::size_t bytes) noexcept;
  // A ring of extents with room for `bytes` in all and for `head_bytes` in its head, none but the
  // last shorter than `shortest` blocks; 0 if there is none.
  [[nodiscard]] block take_ring(std::size_t bytes, std::size_t head_bytes,
                                std::uint32_t shortest) noexcept;
  // Frees one extent, not those that it leads to. Returns the run that it became part of.
  free_run give(block start) noexcept;
  // The free run before an extent; of length 0 if there is none.
  [[nodiscard]] free_run run_before(block start) const noexcept;

  [[nodiscard]] std::size_t free_bytes() const noexcept { return free_blocks_ * block_bytes; }
  [[nodiscard]] block first() const noexcept { return first_; }
  [[nodiscard]] block end() const noexcept { return end_; }

  static constexpr std::uint32_t blocks_for(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + sizeof(extent) + block_bytes - 1) / block_bytes);
  }

 private:
  static constexpr unsigned fine_bits = 3;                       // 8 lists for each power of two
  static constexpr std::uint32_t exact_lists = 2U << fine_bits;  // shorter runs: a list each
  static constexpr std::size_t list_count = (29 - fine_bits) << fine_bits;
  struct run_list {
    block first = 0;
    std::uint32_t count = 0;
    std::uint64_t blocks = 0;
  };
  struct links {  // at the start of a free run
    block next;
    std::uint32_t state;
    block previous;
  };

  static std::uint32_t list_of(std::uint32_t length) noexcept;
  [[nodiscard]] links& links_at(block start) const noexcept {
    return *reinterpret_cast<links*>(memory_.at(start));
  }
  [[nodiscard]] std::uint32_t& last_word(block end) const noexcept {
    return *reinterpret_cast<std::uint32_t*>(memory_.at(end) - sizeof(std::uint32_t));
  }
  void link(block start, std::uint32_t length) noexcept;
  void unlink(block start) noexcept;
  [[nodiscard]] block find(std::uint32_t length) const noexcept;
  [[nodiscard]] block longest() const noexcept;
  [[nodiscard]] bool is_enough(std::size_t bytes, std::uint32_t shortest) const noexcept;
  block cut(block start, std::uint32_t length) noexcept;

  block_memory memory_;
  block first_ = 0;
  block end_ = 0;
  std::uint64_t free_blocks_ = 0;
  std::array<std::uint64_t, (list_count + 63) / 64> filled_{};  // bit: that list is not empty
  std::array<run_list, list_count> lists_{};
};

}  // namespace cache
