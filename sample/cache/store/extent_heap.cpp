#include "extent_heap.h"

#include <algorithm>

namespace cache {

void extent_heap::start(block_memory memory, block first, block end) noexcept {
  *this = {};
  memory_ = memory;
  first_ = first;
  end_ = end;
  memory_.extent_at(end) = {end,
                            (1U << extent::flag_bits) | extent::head_flag | extent::pinned_flag};
}

void extent_heap::add_free(block start, std::uint32_t length) noexcept {
  while (length > 0) {
    const std::uint32_t part = std::min(length, extent::length_max);
    memory_.extent_at(start).state = 0;
    link(start, part);
    start += part;
    length -= part;
  }
}

std::uint32_t extent_heap::list_of(std::uint32_t length) noexcept {
  if (length < exact_lists)
    return length;
  const auto power = static_cast<unsigned>(std::bit_width(length)) - 1;
  const std::uint32_t fine = (length >> (power - fine_bits)) & ((1U << fine_bits) - 1);
  return ((power - fine_bits + 1) << fine_bits) + fine;
}

// Keeps the after_free flag: two neighbours that would be too long together stay apart.
void extent_heap::link(block start, std::uint32_t length) noexcept {
  const std::uint32_t index = list_of(length);
  run_list& list = lists_[index];
  links& here = links_at(start);
  here = {
      list.first,
      (length << extent::flag_bits) | extent::free_flag | (here.state & extent::after_free_flag),
      0};
  last_word(start + length) = length;
  if (list.first != 0)
    links_at(list.first).previous = start;
  list.first = start;
  ++list.count;
  list.blocks += length;
  free_blocks_ += length;
  filled_[index / 64] |= std::uint64_t{1} << (index % 64);
  memory_.extent_at(start + length).state |= extent::after_free_flag;
}

void extent_heap::unlink(block start) noexcept {
  const links here = links_at(start);
  const std::uint32_t length = here.state >> extent::flag_bits;
  const std::uint32_t index = list_of(length);
  run_list& list = lists_[index];
  (here.previous != 0 ? links_at(here.previous).next : list.first) = here.next;
  if (here.next != 0)
    links_at(here.next).previous = here.previous;
  --list.count;
  list.blocks -= length;
  free_blocks_ -= length;
  if (list.count == 0)
    filled_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
  memory_.extent_at(start + length).state &= ~extent::after_free_flag;
}

// A run of at least that length, of the lists' shortest that surely has one; 0 if there is none.
block extent_heap::find(std::uint32_t length) const noexcept {
  constexpr unsigned looks_max = 8;
  std::uint32_t index = list_of(length);
  block start = lists_[index].first;
  for (unsigned look = 0; start != 0 && look < looks_max; ++look) {
    if (memory_.extent_at(start).length() >= length)
      return start;
    start = links_at(start).next;
  }
  ++index;
  for (std::size_t word = index / 64; word < filled_.size(); ++word) {
    std::uint64_t bits = filled_[word];
    if (word == index / 64)
      bits = bits >> (index % 64) << (index % 64);
    if (bits != 0)
      return lists_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].first;
  }
  return 0;
}

// One of the list with the longest runs; 0 if nothing is free.
block extent_heap::longest() const noexcept {
  for (std::size_t word = filled_.size(); word-- > 0;) {
    if (filled_[word] != 0)
      return lists_[word * 64 + static_cast<std::size_t>(std::bit_width(filled_[word])) - 1].first;
  }
  return 0;
}

// Makes the first `length` blocks of a free run an extent, a ring of its own.
block extent_heap::cut(block start, std::uint32_t length) noexcept {
  extent& here = memory_.extent_at(start);
  const std::uint32_t rest = here.length() - length;
  unlink(start);
  here = {start, (length << extent::flag_bits) | (here.state & extent::after_free_flag)};
  if (rest > 0) {
    memory_.extent_at(start + length).state = 0;
    link(start + length, rest);
  }
  return start;
}

block extent_heap::take(std::size_t bytes) noexcept {
  const std::uint32_t length = blocks_for(bytes);
  const block found = find(length);
  if (found == 0)
    return 0;
  cut(found, length);
  memory_.extent_at(found).state |= extent::head_flag;
  return found;
}

bool extent_heap::is_enough(std::size_t bytes, std::uint32_t shortest) const noexcept {
  // The list that `shortest` lies in may hold shorter runs, unless it begins with that length.
  std::size_t room = 0;
  for (std::uint32_t index = list_count; index-- > list_of(shortest) && room < bytes;)
    room += lists_[index].blocks * block_bytes - lists_[index].count * sizeof(extent);
  return room >= bytes;
}

block extent_heap::take_ring(std::size_t bytes, std::size_t head_bytes,
                             std::uint32_t shortest) noexcept {
  if (const block whole = take(bytes); whole != 0)
    return whole;
  const block first = longest();
  if (first == 0 || memory_.extent_at(first).payload_bytes() < head_bytes ||
      !is_enough(bytes, shortest))
    return 0;
  block head = 0;
  block last = 0;
  while (bytes > 0) {
    block part = find(blocks_for(bytes));
    if (part == 0)
      part = longest();
    cut(part, std::min(blocks_for(bytes), memory_.extent_at(part).length()));
    bytes -= std::min(bytes, memory_.extent_at(part).payload_bytes());
    if (head == 0) {
      head = part;
      memory_.extent_at(head).state |= extent::head_flag;
    } else {
      memory_.extent_at(last).next = part;
    }
    memory_.extent_at(part).next = head;
    last = part;
  }
  return head;
}

free_run extent_heap::run_before(block start) const noexcept {
  if (!memory_.extent_at(start).has(extent::after_free_flag))
    return {start, 0};
  const std::uint32_t length = last_word(start);
  return {start - length, length};
}

free_run extent_heap::give(block start) noexcept {
  std::uint32_t length = memory_.extent_at(start).length();
  const extent& after = memory_.extent_at(start + length);
  if (after.has(extent::free_flag) && after.length() <= extent::length_max - length) {
    const std::uint32_t added = after.length();
    unlink(start + length);
    length += added;
  }
  const free_run before = run_before(start);
  if (before.length > 0 && before.length <= extent::length_max - length) {
    unlink(before.start);
    start = before.start;
    length += before.length;
  }
  link(start, length);
  return {start, length};
}

}  // namespace cache
