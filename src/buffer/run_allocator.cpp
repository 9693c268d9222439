#include "buffer/run_allocator.h"

#include <algorithm>
#include <cassert>

namespace atbus::detail {

void run_allocator::start(run_tag* tags, long_run* long_runs, std::uint32_t blocks) noexcept {
  tags_ = tags;
  long_runs_ = long_runs;
  blocks_ = blocks;
  lists_.fill(no_block);
  // A taken run of one block behind the last one as a sentinel: no run coalesces with it.
  tags_[blocks].head = (1U << flag_bits) | taken_flag;
  free_blocks_ = blocks;
  if (blocks > 0)
    link(0, blocks);
}

std::uint32_t run_allocator::list_of(std::uint32_t length) noexcept {
  if (length < exact_lists)
    return length;
  const auto power = static_cast<unsigned>(std::bit_width(length)) - 1;
  const std::uint32_t fine = (length >> (power - fine_bits)) & ((1U << fine_bits) - 1);
  return ((power - fine_bits + 1) << fine_bits) + fine;
}

// The first list whose runs are all at least that long.
std::uint32_t run_allocator::list_that_fits(std::uint32_t length) noexcept {
  if (length < exact_lists)
    return length;
  const auto power = static_cast<unsigned>(std::bit_width(length)) - 1;
  return list_of(length + (1U << (power - fine_bits)) - 1);
}

// `list_count` if there is none.
std::uint32_t run_allocator::first_list_from(std::uint32_t list) const noexcept {
  if (list >= list_count)
    return list_count;
  std::uint32_t word = list / 64;
  std::uint64_t bits = words_[word] >> (list % 64) << (list % 64);
  if (bits == 0) {
    const std::uint32_t later = full_words_ >> word >> 1 << 1 << word;
    if (later == 0)
      return list_count;
    word = static_cast<std::uint32_t>(std::countr_zero(later));
    bits = words_[word];
  }
  return word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
}

void run_allocator::link(block_index block, std::uint32_t length) noexcept {
  const std::uint32_t list = list_of(length);
  run_tag& tag = tags_[block];
  tag = {length << flag_bits, lists_[list], no_block};
  if (tag.next != no_block)
    tags_[tag.next].prev = block;
  lists_[list] = block;
  words_[list / 64] |= std::uint64_t{1} << (list % 64);
  full_words_ |= 1U << (list / 64);
  run_tag& after = tags_[block + length];
  after.head |= after_free_flag;
  after.prev = length;
}

void run_allocator::unlink(block_index block) noexcept {
  run_tag& tag = tags_[block];
  const std::uint32_t length_here = tag.head >> flag_bits;
  const std::uint32_t list = list_of(length_here);
  if (tag.next != no_block)
    tags_[tag.next].prev = tag.prev;
  if (tag.prev != no_block) {
    tags_[tag.prev].next = tag.next;
  } else {
    lists_[list] = tag.next;
    if (tag.next == no_block) {
      words_[list / 64] &= ~(std::uint64_t{1} << (list % 64));
      if (words_[list / 64] == 0)
        full_words_ &= ~(1U << (list / 64));
    }
  }
  tags_[block + length_here].head &= ~after_free_flag;
}

block_index run_allocator::find(std::uint32_t length) const noexcept {
  // Try the newest run of about this length first: a pool of one message size then never splits longer runs.
  const std::uint32_t own = list_of(length);
  const block_index first = lists_[own];
  if (first != no_block && tagged_length(first) >= length)
    return first;
  const std::uint32_t list = first_list_from(list_that_fits(length));
  if (list < list_count)
    return lists_[list];
  block_index block = first;
  for (unsigned i = 0; block != no_block && i < candidates_max; ++i) {
    if (tagged_length(block) >= length)
      return block;
    block = tags_[block].next;
  }
  return no_block;
}

block_index run_allocator::take_from_lists(std::uint32_t length) noexcept {
  assert(length > 0);
  const block_index found = find(length);
  if (found == no_block)
    return no_block;
  const std::uint32_t rest = tagged_length(found) - length;
  unlink(found);
  const block_index block = found + rest;
  set_taken(block, length);
  if (rest > 0)
    link(found, rest);
  free_blocks_ -= length;
  return block;
}

void run_allocator::set_taken(block_index block, std::uint32_t length) noexcept {
  const std::uint32_t state = (length << flag_bits) | taken_flag;
  tags_[block].head = state;
  if (length >= long_run_blocks) {
    long_runs_[block >> long_run_shift] = {block, state};
  }
}

bool run_allocator::fits_aligned(block_index block, std::uint32_t length) const noexcept {
  const block_index aligned = (block + length - 1) & ~(length - 1);
  return aligned + length <= block + tagged_length(block);
}

block_index run_allocator::find_aligned(std::uint32_t length) const noexcept {
  unsigned looked_at = 0;
  std::uint32_t list = first_list_from(list_of(length));
  while (list < list_count && looked_at < candidates_max) {
    for (block_index b = lists_[list]; b != no_block && looked_at < candidates_max; ++looked_at) {
      if (fits_aligned(b, length))
        return b;
      b = tags_[b].next;
    }
    list = first_list_from(list + 1);
  }
  // Twice the length holds an aligned run wherever it starts.
  list = first_list_from(list_that_fits(2 * length - 1));
  return list < list_count ? lists_[list] : no_block;
}

block_index run_allocator::take_aligned(std::uint32_t length) noexcept {
  const block_index found = find_aligned(length);
  if (found == no_block)
    return no_block;
  const std::uint32_t whole = tagged_length(found);
  const block_index block = (found + length - 1) & ~(length - 1);
  const std::uint32_t before = block - found;
  const std::uint32_t behind = whole - before - length;
  unlink(found);
  tags_[found].head = 0;
  set_taken(block, length);
  if (before > 0)
    link(found, before);
  if (behind > 0)
    link(block + length, behind);
  free_blocks_ -= length;
  return block;
}

void run_allocator::release(block_index block) noexcept {
  std::uint32_t freed = tagged_length(block);
  if (freed >= long_run_blocks) {
    long_runs_[block >> long_run_shift].state = 0;
  }
  const block_index after = block + freed;
  if ((tags_[after].head & taken_flag) == 0) {
    freed += tagged_length(after);
    unlink(after);
    tags_[after].head = 0;
  }
  if (tags_[block].head & after_free_flag) {
    const std::uint32_t before = tags_[block].prev;
    tags_[block].head = 0;
    block -= before;
    freed += before;
    unlink(block);
  }
  link(block, freed);
}

std::uint32_t run_allocator::longest() const noexcept {
  if (full_words_ == 0)
    return 0;
  const auto word = static_cast<std::uint32_t>(std::bit_width(full_words_)) - 1;
  const auto bit = static_cast<std::uint32_t>(std::bit_width(words_[word])) - 1;
  std::uint32_t longest = 0;
  for (block_index b = lists_[word * 64 + bit]; b != no_block; b = tags_[b].next) {
    longest = std::max(longest, tagged_length(b));
  }
  return longest;
}

void run_allocator::coalesce_kept() noexcept {
  for (kept_runs& kept : kept_) {
    while (kept.count > 0) {
      const block_index block = kept.blocks[--kept.count];
      state_of(block) &= ~kept_flag;
      release(block);
    }
  }
}

}  // namespace atbus::detail
