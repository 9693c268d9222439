#include "atbus/block_pool.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "buffer/cell_regions.h"
#include "buffer/page_mapping.h"
#include "buffer/run_allocator.h"

namespace atbus {
namespace {

using detail::region_blocks;
static_assert(region_blocks == detail::long_run_blocks);

// Cells are served up to this many blocks; longer pieces are runs.
constexpr std::size_t cell_blocks_max = 8;

// One mapping holds the blocks and, behind them, the tables.
struct layout {
  std::size_t blocks;
  std::size_t regions;
  std::size_t infos_at;
  std::size_t tags_at;
  std::size_t long_runs_at;
  std::size_t classes_at;
  std::size_t bytes;
};

layout layout_for(std::size_t bytes, std::size_t block_size) noexcept {
  layout made{};
  made.regions = (bytes + block_size * region_blocks - 1) / (block_size * region_blocks);
  made.blocks = made.regions * region_blocks;
  made.infos_at = made.blocks * block_size;
  made.tags_at = made.infos_at + made.regions * sizeof(detail::cell_region);
  made.long_runs_at = made.tags_at + (made.blocks + 1) * sizeof(detail::run_tag);
  made.classes_at = made.long_runs_at + made.regions * sizeof(detail::long_run);
  made.bytes = made.classes_at + made.regions;
  return made;
}

}  // namespace

struct block_pool::state {
  detail::page_mapping memory;
  layout tables;
  detail::run_allocator runs;
  detail::cell_regions cells;
};

result<std::unique_ptr<block_pool>> block_pool::create(options chosen) {
  if (!std::has_single_bit(chosen.block_size) || chosen.block_size < 16 ||
      chosen.block_size > 65536) {
    return error{errc::invalid_argument, "block_size is " + std::to_string(chosen.block_size) +
                                             "; it must be a power of two from 16 to 65536."};
  }
  const std::size_t bytes_max =
      (detail::run_allocator::blocks_max & ~std::size_t{region_blocks - 1}) * chosen.block_size;
  if (chosen.bytes == 0 || chosen.bytes > bytes_max) {
    return error{errc::invalid_argument,
                 "bytes is " + std::to_string(chosen.bytes) + "; with blocks of " +
                     std::to_string(chosen.block_size) + " it must be from 1 to " +
                     std::to_string(bytes_max) + "."};
  }
  auto made = std::make_unique<state>();
  made->tables = layout_for(chosen.bytes, chosen.block_size);
  auto memory = detail::page_mapping::make(made->tables.bytes, chosen.pages);
  if (!memory)
    return std::move(memory).error();
  made->memory = *std::move(memory);
  return std::unique_ptr<block_pool>{new block_pool{chosen, std::move(made)}};
}

block_pool::block_pool(options chosen, std::unique_ptr<state> made) noexcept
    : block_shift_{static_cast<unsigned>(std::countr_zero(chosen.block_size))},
      state_{std::move(made)} {
  const std::size_t block_size = chosen.block_size;
  const layout& tables = state_->tables;
  base_ = state_->memory.base();
  bytes_ = tables.blocks * block_size;
  cell_bytes_max_ = cell_blocks_max * block_size;
  step_ = std::max<std::size_t>(8, block_size / 16);
  step_shift_ = static_cast<unsigned>(std::countr_zero(step_));
  region_shift_ = static_cast<unsigned>(std::countr_zero(block_size * region_blocks));

  auto* const classes = reinterpret_cast<std::uint8_t*>(base_ + tables.classes_at);
  class_of_region_ = classes;
  state_->runs.start(reinterpret_cast<detail::run_tag*>(base_ + tables.tags_at),
                     reinterpret_cast<detail::long_run*>(base_ + tables.long_runs_at),
                     static_cast<std::uint32_t>(tables.blocks));
  state_->cells.start({.base = base_,
                       .regions = static_cast<std::uint32_t>(tables.regions),
                       .region_shift = region_shift_,
                       .infos = reinterpret_cast<detail::cell_region*>(base_ + tables.infos_at),
                       .classes = classes,
                       .runs = &state_->runs});
  // Cell sizes: every step up to one block, then whole blocks. A region holds at most 2048 cells.
  const std::size_t smallest = std::max<std::size_t>(16, block_size / 8);
  std::uint8_t cell_class = 0;
  std::size_t steps = 0;
  for (std::size_t size = smallest; size <= cell_bytes_max_; ++cell_class) {
    state_->cells.set_cell_size(cell_class, static_cast<std::uint32_t>(size));
    for (; steps <= size / step_; ++steps) {
      class_of_size_[steps] = cell_class;
    }
    size += size < block_size ? step_ : block_size;
  }
}

block_pool::~block_pool() = default;

const obtained_memory& block_pool::obtained() const noexcept {
  return state_->memory.obtained();
}

std::byte* block_pool::allocate_from_regions(magazine& cells) noexcept {
  const std::uint8_t cell_class = class_of(cells);
  const std::span<std::byte*> half{cells.addresses.data(), magazine_size / 2};
  cells.count = state_->cells.take(cell_class, half);
  if (cells.count == 0) {
    trim();
    cells.count = state_->cells.take(cell_class, half);
    if (cells.count == 0)
      return nullptr;
  }
  return cells.addresses[--cells.count];
}

std::byte* block_pool::allocate_run(std::size_t bytes) noexcept {
  if (bytes > bytes_)
    return nullptr;
  const auto blocks = static_cast<std::uint32_t>((bytes + block_size() - 1) >> block_shift_);
  detail::block_index block = state_->runs.take(blocks);
  if (block == detail::no_block) {
    trim();
    block = state_->runs.take(blocks);
    if (block == detail::no_block)
      return nullptr;
  }
  return base_ + (std::size_t{block} << block_shift_);
}

void block_pool::deallocate_run(std::byte* piece) noexcept {
  if (piece == nullptr)
    return;
  const std::size_t offset = offset_of(piece);
  const auto block = static_cast<detail::block_index>(offset >> block_shift_);
  const bool ours =
      offset < bytes_ && (offset & (block_size() - 1)) == 0 && state_->runs.is_taken(block);
  assert(ours && "not a piece of this pool, or given back twice");
  if (!ours) {
    ++misuses_;
    return;
  }
  state_->runs.give(block);
}

void block_pool::empty_half(magazine& cells) noexcept {
  // Give back the older half: the newer cells are more likely to be in the cache.
  constexpr std::size_t half = magazine_size / 2;
  for (std::size_t i = 0; i < half; ++i) {
    if (!state_->cells.give(cells.addresses[i]))
      ++misuses_;
  }
  std::copy(cells.addresses.begin() + half, cells.addresses.end(), cells.addresses.begin());
  cells.count -= half;
}

void block_pool::empty_whole(magazine& cells) noexcept {
  while (cells.count > 0) {
    if (!state_->cells.give(cells.addresses[--cells.count]))
      ++misuses_;
  }
}

bool block_pool::is_taken_cell(const std::byte* piece) const noexcept {
  if (!state_->cells.is_taken(piece))
    return false;
  const std::size_t offset = offset_of(piece);
  const magazine& cells = magazines_[class_of_region_[offset >> region_shift_]];
  const auto* const end = cells.addresses.data() + cells.count;
  return std::find(cells.addresses.data(), end, piece) == end;
}

void block_pool::trim() noexcept {
  for (magazine& cells : magazines_) {
    empty_whole(cells);
  }
  state_->cells.release_empty();
  state_->runs.coalesce_kept();
}

std::size_t block_pool::free_bytes() const noexcept {
  std::size_t in_magazines = 0;
  for (const magazine& cells : magazines_) {
    if (cells.count == 0)
      continue;
    in_magazines += cells.count * state_->cells.cell_size(class_of(cells));
  }
  return state_->runs.free_blocks() * block_size() + state_->cells.free_bytes() + in_magazines;
}

std::size_t block_pool::largest_free() const noexcept {
  return std::size_t{state_->runs.longest()} * block_size();
}

}  // namespace atbus
