/// @class atbus::block_pool
/// A bounded memory pool. It takes its memory from the kernel once, and allocates pieces of any
/// size from it; they can be given back in any order. allocate of a full pool returns nullptr; a
/// pool never asks the kernel for more.
///
/// ```cpp
/// auto pool = atbus::block_pool::create({.bytes = 1 << 20});
/// if (!pool) return pool.error().print(), 1;
/// std::byte* piece = (*pool)->allocate(300);
/// (*pool)->deallocate(piece);
/// ```
///
/// The pool consists of blocks (build_settings::data_node_size bytes). A piece of up to 8 blocks is
/// a *cell*: cells of one size share a region of 256 blocks, and a bitmap of the region says which
/// cells are free. A *magazine* (a small stack) per size holds the addresses given back last, so
/// that allocate and deallocate usually touch nothing else, not even the piece. A longer piece is a
/// *run* of blocks. The pool finds it through segregated free lists, and joins it with its free
/// neighbours when it is given back. doc/design/buffers.md has the measurements.
///
/// Ownership: the pool owns all pieces; they become invalid when it is destroyed.
///
/// Threads: one thread uses a pool. A piece may be filled or read by any thread that the owner
/// hands it to; only the owner calls allocate, deallocate and trim.
///
/// Errors: misuse (a pointer from elsewhere, a piece given back twice) is asserted. Without
/// assertions, misuse of a run has no effect and is counted in misuses(). Misuse of a cell is
/// noticed only when its magazine is emptied; until then allocate may have returned the cell again.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "atbus/build_settings.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/page_memory.hpp"
#include "atbus/status.hpp"

namespace atbus {

class ATBUS_API block_pool {
 public:
  /// The size of a pool, and the kind of memory it uses.
  struct options {
    /// Bytes of the pool, rounded up to whole regions.
    std::size_t bytes = std::size_t{64} << 20;
    /// Bytes of a block: a power of two, 16 to 65536.
    std::size_t block_size = build_settings::data_node_size;
    /// The kind of pages to ask the kernel for.
    page_options pages{};
  };

  /// Takes the memory, and about 11 % more for bookkeeping, of which only the used part is touched.
  /// Errors: invalid_argument (text: which option), out_of_memory.
  static result<std::unique_ptr<block_pool>> create(options chosen);

  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;
  ~block_pool();

  /// `bytes` writable bytes, not initialized, aligned to 8; from one block on, aligned to the block
  /// size, at most to a page. nullptr if no piece of that size is free.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) noexcept {
    if (bytes <= cell_bytes_max_) [[likely]] {
      magazine& cells = magazines_[class_of_size_[(bytes + step_ - 1) >> step_shift_]];
      if (cells.count > 0) [[likely]] {
        return cells.addresses[--cells.count];
      }
      return allocate_from_regions(cells);
    }
    return allocate_run(bytes);
  }

  /// Gives back a piece of allocate. nullptr is allowed.
  void deallocate(std::byte* piece) noexcept {
    const std::size_t offset = offset_of(piece);
    if (offset < bytes_) [[likely]] {
      const std::uint8_t cell_class = class_of_region_[offset >> region_shift_];
      if (cell_class != no_class) [[likely]] {
        magazine& cells = magazines_[cell_class];
        assert(is_taken_cell(piece) && "not a piece of this pool, or given back twice");
        if (cells.count == magazine_size) [[unlikely]] {
          empty_half(cells);
        }
        cells.addresses[cells.count++] = piece;
        return;
      }
    }
    deallocate_run(piece);
  }

  /// Joins free neighbours and turns empty regions into runs, so that larger pieces fit. Takes time
  /// in proportion to the number of free pieces. allocate does this by itself before it fails.
  void trim() noexcept;

  /// Bytes in all.
  [[nodiscard]] std::size_t capacity() const noexcept { return bytes_; }
  /// Bytes that are free now, in cells or in runs. Looks at every region.
  [[nodiscard]] std::size_t free_bytes() const noexcept;
  /// Bytes of the longest free run: after trim, the largest piece that allocate can serve. Looks at
  /// every region.
  [[nodiscard]] std::size_t largest_free() const noexcept;

  /// Bytes of a block.
  [[nodiscard]] std::size_t block_size() const noexcept { return std::size_t{1} << block_shift_; }
  /// What the kernel gave for the pool's memory.
  [[nodiscard]] const obtained_memory& obtained() const noexcept;

  /// Number of wrong deallocate calls that were ignored.
  [[nodiscard]] std::uint64_t misuses() const noexcept { return misuses_; }

 private:
  static constexpr std::size_t magazine_size = 511;
  static constexpr std::size_t classes_max = 24;
  static constexpr std::uint8_t no_class = 0xff;

  // Free cells of one size, the one given back last on top.
  struct magazine {
    std::uint64_t count = 0;
    std::array<std::byte*, magazine_size> addresses;
  };
  struct state;

  // Of any address: one from elsewhere gives an offset beyond the pool.
  [[nodiscard]] std::size_t offset_of(const std::byte* piece) const noexcept {
    return reinterpret_cast<std::uintptr_t>(piece) - reinterpret_cast<std::uintptr_t>(base_);
  }
  [[nodiscard]] std::uint8_t class_of(const magazine& cells) const noexcept {
    return static_cast<std::uint8_t>(&cells - magazines_.data());
  }

  block_pool(options chosen, std::unique_ptr<state> made) noexcept;
  std::byte* allocate_from_regions(magazine& cells) noexcept;
  std::byte* allocate_run(std::size_t bytes) noexcept;
  void deallocate_run(std::byte* piece) noexcept;
  void empty_half(magazine& cells) noexcept;
  void empty_whole(magazine& cells) noexcept;
  [[nodiscard]] bool is_taken_cell(const std::byte* piece) const noexcept;

  std::byte* base_;
  std::size_t bytes_;
  std::size_t cell_bytes_max_;
  std::size_t step_;  // cells up to one block are multiples of it
  unsigned step_shift_;
  unsigned block_shift_;
  unsigned region_shift_;
  const std::uint8_t* class_of_region_;
  std::uint64_t misuses_ = 0;
  std::unique_ptr<state> state_;
  std::array<std::uint8_t, 136> class_of_size_{};  // by size in steps, rounded up
  std::array<magazine, classes_max> magazines_;
};

}  // namespace atbus
