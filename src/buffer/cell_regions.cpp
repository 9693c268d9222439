#include "buffer/cell_regions.h"

#include <algorithm>
#include <bit>

namespace atbus::detail {

void cell_regions::start(const geometry& given) noexcept {
  geometry_ = given;
  std::fill_n(geometry_.classes, geometry_.regions, no_class);
}

void cell_regions::link(class_list& list, std::uint32_t region) noexcept {
  cell_region& info = geometry_.infos[region];
  info.prev = no_region;
  info.next = list.first;
  if (list.first != no_region)
    geometry_.infos[list.first].prev = region;
  list.first = region;
  ++list.count;
}

void cell_regions::unlink(class_list& list, std::uint32_t region) noexcept {
  const cell_region& info = geometry_.infos[region];
  if (info.next != no_region)
    geometry_.infos[info.next].prev = info.prev;
  if (info.prev != no_region) {
    geometry_.infos[info.prev].next = info.next;
  } else {
    list.first = info.next;
  }
  --list.count;
}

bool cell_regions::add_region(std::uint8_t cell_class) noexcept {
  const block_index block = geometry_.runs->take_aligned(region_blocks);
  if (block == no_block)
    return false;
  const std::uint32_t region = block / region_blocks;
  class_list& list = lists_[cell_class];
  geometry_.classes[region] = cell_class;
  cell_region& info = geometry_.infos[region];
  info.taken = 0;
  info.cell_size = list.cell_size;
  info.cells = (1U << geometry_.region_shift) / info.cell_size;
  info.reciprocal = 0xffffffffU / info.cell_size + 1;
  info.free_words = 0;
  info.free.fill(0);
  for (std::uint32_t at = 0; at < info.cells; at += 64) {
    const std::uint32_t here = std::min(info.cells - at, 64U);
    info.free[at / 64] = ~std::uint64_t{0} >> (64 - here);
    info.free_words |= 1U << (at / 64);
  }
  link(list, region);
  return true;
}

std::size_t cell_regions::take(std::uint8_t cell_class, std::span<std::byte*> out) noexcept {
  class_list& list = lists_[cell_class];
  if (list.first == no_region && !add_region(cell_class))
    return 0;
  const std::uint32_t region = list.first;
  cell_region& info = geometry_.infos[region];
  std::byte* const base = geometry_.base + (std::size_t{region} << geometry_.region_shift);
  std::size_t count = 0;
  while (count < out.size() && info.free_words != 0) {
    const auto word = static_cast<unsigned>(std::countr_zero(info.free_words));
    std::uint64_t bits = info.free[word];
    std::byte* const first = base + std::size_t{word} * 64 * info.cell_size;
    while (bits != 0 && count < out.size()) {
      const auto bit = static_cast<unsigned>(std::countr_zero(bits));
      bits &= bits - 1;
      out[count++] = first + std::size_t{bit} * info.cell_size;
    }
    info.free[word] = bits;
    if (bits == 0)
      info.free_words &= info.free_words - 1;
  }
  info.taken += static_cast<std::uint32_t>(count);
  if (info.free_words == 0)
    unlink(list, region);
  std::reverse(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

cell_regions::location cell_regions::locate(const std::byte* cell) const noexcept {
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(cell) - reinterpret_cast<std::uintptr_t>(geometry_.base);
  const std::size_t region = offset >> geometry_.region_shift;
  if (region >= geometry_.regions || geometry_.classes[region] == no_class) {
    return {no_region, 0, false};
  }
  const cell_region& info = geometry_.infos[region];
  const std::size_t inside = offset & ((std::size_t{1} << geometry_.region_shift) - 1);
  const auto index = static_cast<std::uint32_t>(inside * info.reciprocal >> 32);
  const bool exact = std::size_t{index} * info.cell_size == inside && index < info.cells;
  return {static_cast<std::uint32_t>(region), index, exact};
}

bool cell_regions::is_taken(const std::byte* cell) const noexcept {
  const location at = locate(cell);
  if (!at.exact)
    return false;
  return (geometry_.infos[at.region].free[at.index / 64] >> (at.index % 64) & 1) == 0;
}

bool cell_regions::give(std::byte* cell) noexcept {
  const location at = locate(cell);
  if (!at.exact)
    return false;
  cell_region& info = geometry_.infos[at.region];
  const std::uint64_t bit = std::uint64_t{1} << (at.index % 64);
  if (info.free[at.index / 64] & bit)
    return false;
  class_list& list = lists_[geometry_.classes[at.region]];
  if (info.free_words == 0)
    link(list, at.region);
  info.free[at.index / 64] |= bit;
  info.free_words |= 1U << (at.index / 64);
  // Keep one empty region: otherwise a program that takes and gives one cell would make a region each time.
  if (--info.taken == 0 && list.count > 1)
    release(list, at.region);
  return true;
}

void cell_regions::release(class_list& list, std::uint32_t region) noexcept {
  unlink(list, region);
  geometry_.classes[region] = no_class;
  geometry_.runs->give(region * region_blocks);
}

void cell_regions::release_empty() noexcept {
  for (class_list& list : lists_) {
    for (std::uint32_t region = list.first; region != no_region;) {
      const std::uint32_t next = geometry_.infos[region].next;
      if (geometry_.infos[region].taken == 0)
        release(list, region);
      region = next;
    }
  }
}

std::size_t cell_regions::free_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const class_list& list : lists_) {
    for (std::uint32_t region = list.first; region != no_region;
         region = geometry_.infos[region].next) {
      const cell_region& info = geometry_.infos[region];
      bytes += std::size_t{info.cells - info.taken} * info.cell_size;
    }
  }
  return bytes;
}

}  // namespace atbus::detail
