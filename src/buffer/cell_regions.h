// Regions of 256 blocks, each cut into cells of one size, with a bitmap of what is free.
//
// One thread. A free region goes back to the run allocator, except for one of each class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "buffer/run_allocator.h"

namespace atbus::detail {

inline constexpr std::uint32_t region_blocks = 256;
inline constexpr std::uint32_t no_region = 0xffffffffU;
inline constexpr std::uint8_t no_class = 0xff;

// The state of a region of cells. A cell in a magazine counts as taken.
struct alignas(64) cell_region {
  std::uint32_t taken;  // cells
  std::uint32_t cells;
  std::uint32_t cell_size;   // bytes
  std::uint32_t reciprocal;  // of cell_size, as a 32-bit fraction, rounded up
  std::uint32_t next;        // region of the same class with free cells
  std::uint32_t prev;
  std::uint32_t free_words;  // bit w: free[w] is not 0
  std::uint32_t reserved;
  std::array<std::uint64_t, 32> free;  // bit: that cell is free
};
static_assert(sizeof(cell_region) == 320);

class cell_regions {
 public:
  static constexpr std::size_t classes_max = 24;

  struct geometry {
    std::byte* base;
    std::uint32_t regions;
    unsigned region_shift;  // log2 of bytes per region
    cell_region* infos;     // `regions` of them
    std::uint8_t* classes;  // `regions` of them: the class, or no_class
    run_allocator* runs;
  };

  void start(const geometry& given) noexcept;
  void set_cell_size(std::uint8_t cell_class, std::uint32_t bytes) noexcept {
    lists_[cell_class].cell_size = bytes;
  }
  [[nodiscard]] std::size_t cell_size(std::uint8_t cell_class) const noexcept {
    return lists_[cell_class].cell_size;
  }

  // Takes up to out.size() free cells of the class, from one region, ordered so that the last has
  // the lowest address. 0 if there is no free cell and no region is available.
  [[nodiscard]] std::size_t take(std::uint8_t cell_class, std::span<std::byte*> out) noexcept;

  // Gives back a cell. False, without effect, if the address is not a cell of this object or is free.
  bool give(std::byte* cell) noexcept;

  // Whether the address is the start of a cell that is not free here.
  [[nodiscard]] bool is_taken(const std::byte* cell) const noexcept;

  // Gives regions without a taken cell back to the run allocator.
  void release_empty() noexcept;

  // Bytes in free cells.
  [[nodiscard]] std::size_t free_bytes() const noexcept;

 private:
  struct class_list {
    std::uint32_t first = no_region;  // regions with free cells
    std::uint32_t count = 0;          // of them
    std::uint32_t cell_size = 0;
  };

  // Where an address lies: cell `index` of `region`, if `exact`.
  struct location {
    std::uint32_t region;
    std::uint32_t index;
    bool exact;
  };

  [[nodiscard]] location locate(const std::byte* cell) const noexcept;
  bool add_region(std::uint8_t cell_class) noexcept;
  void link(class_list& list, std::uint32_t region) noexcept;
  void unlink(class_list& list, std::uint32_t region) noexcept;
  void release(class_list& list, std::uint32_t region) noexcept;

  geometry geometry_{};
  std::array<class_list, classes_max> lists_{};
};

}  // namespace atbus::detail
