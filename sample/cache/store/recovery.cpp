// How a store begins: the layout of the arena, and what it finds in a kept one.
//
//     | header | directory of the index | committed (kept arenas only) | heap ... | sentinel |
//
// Of a kept arena only the header, `committed` and the extents it names are read; index and free
// lists are made anew. Nothing is trusted before it was checked: a file may be damaged or forged.
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "cache_store.h"
#include "hash.h"

namespace cache {

using atbus::errc;
using atbus::error;

// All fields are of this machine's byte order; the magic shows another one.
struct cache_store::header {
  static constexpr std::uint64_t magic_value = 0x65726f7473636274;  // "tbcstore"
  static constexpr std::uint32_t version_now = 1;

  std::uint64_t magic;  // written last
  std::uint32_t version;
  std::uint32_t block_size;
  std::uint64_t memory_bytes;
  std::uint64_t seed;
  std::uint64_t check;  // of the fields before

  [[nodiscard]] std::uint64_t right_check() const noexcept {
    return hash_bytes({reinterpret_cast<const std::byte*>(this), offsetof(header, check)}, 0);
  }
};

namespace {

std::uint64_t random_word() {
  std::uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word)
    word = static_cast<std::uint64_t>(atbus::now().count());
  return word;
}

}  // namespace

atbus::result<std::unique_ptr<cache_store>> cache_store::open(const store_options& options) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = options.memory_bytes / page * page;
  if (bytes < store_options::memory_bytes_min || bytes > store_options::memory_bytes_max)
    return error{errc::invalid_argument, "the memory of a cache must be 1 MiB to 32 GiB, not " +
                                             std::to_string(options.memory_bytes) + " bytes"};
  auto made = arena::make(bytes, options.pages, options.keep_file);
  if (!made)
    return made.error();
  std::unique_ptr<cache_store> store{new cache_store};
  store->arena_ = std::move(*made);
  store->memory_ = {store->arena_.base()};
  store->clock_ = options.clock;
  if (error problem = store->lay_out(); !problem)
    return problem.with_text(options.keep_file + ": " + problem.text());
  return store;
}

error cache_store::lay_out() {
  const std::size_t bytes = arena_.bytes();
  auto& head = *reinterpret_cast<header*>(arena_.base());
  static constexpr header unused{};
  const bool is_new = std::memcmp(&head, &unused, sizeof head) == 0;
  if (is_new) {
    header made{header::magic_value, header::version_now, block_bytes, bytes, random_word(), 0};
    made.check = made.right_check();
    head.version = made.version;
    head.block_size = made.block_size;
    head.memory_bytes = made.memory_bytes;
    head.seed = made.seed;
    head.check = made.check;
    std::atomic_ref{head.magic}.store(made.magic, std::memory_order_release);
  } else if (head.magic != header::magic_value) {
    return {errc::not_a_segment, "not the file of a cache; remove it or name another"};
  } else if (head.version != header::version_now) {
    return {errc::version_mismatch, "the file of a cache of another version; remove it"};
  } else if (head.check != head.right_check()) {
    return {errc::not_a_segment, "the header of this cache is damaged; remove the file"};
  } else if (head.memory_bytes != bytes || head.block_size != block_bytes) {
    return {errc::geometry_mismatch, "a cache of other sizes; remove the file"};
  }
  seed_ = head.seed;

  // The least item and its slots take more than 48 bytes.
  const std::size_t directory_size = bytes / (16 * slot_index::segment_bytes / 8) + 8;
  const std::size_t blocks = bytes / block_bytes;
  std::size_t at = 64;
  auto* const directory = reinterpret_cast<block*>(arena_.base() + at);
  at = (at + directory_size * sizeof(block) + 63) / 64 * 64;
  if (arena_.is_kept()) {
    committed_ = reinterpret_cast<std::uint64_t*>(arena_.base() + at);
    at += blocks / 8;
  }
  heap_.start(memory_, static_cast<block>((at + 63) / 64 * (64 / block_bytes)),
              static_cast<block>(blocks - 1));
  const std::size_t heap_bytes = (heap_.end() - heap_.first()) * block_bytes;
  item_bytes_max_ = std::min<std::size_t>(heap_bytes / 2, 0xffff0000U);

  if (arena_.is_kept() && !is_new) {
    check_extents();
    check_items();
    free_gaps();
  } else {
    heap_.add_free(heap_.first(), heap_.end() - heap_.first());
  }
  const std::size_t cheap_slots = bytes / 40 / sizeof(slot);
  if (!index_.start(memory_, heap_, directory, directory_size, cheap_slots, random_word())) {
    // A kept heap without one run for the index: what holds no index gives way to one that does.
    return {errc::not_a_segment, "the items of this cache leave no room for its index"};
  }
  if (committed_ != nullptr)
    fill_index();
  return {};
}

// --- recovery ----------------------------------------------------------------------------------

// The first extent at or behind `from` that has its bit; the heap's end if there is none.
block cache_store::next_committed(block from) const noexcept {
  const std::size_t words = heap_.end() / 64 + 1;
  for (std::size_t word = from / 64; word < words; ++word) {
    std::uint64_t bits = committed_[word];
    if (word == from / 64)
      bits = bits >> (from % 64) << (from % 64);
    if (bits != 0)
      return std::min(
          static_cast<block>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))),
          heap_.end());
  }
  return heap_.end();
}

// After this no two extents that have a bit overlap, and all lie in the heap.
void cache_store::check_extents() noexcept {
  for (block at = next_committed(heap_.first()); at < heap_.end();) {
    const block next = next_committed(at + 1);
    extent& here = memory_.extent_at(at);
    if (here.has(extent::free_flag) || here.length() == 0 || here.length() > next - at) {
      stats_.damaged += here.has(extent::head_flag) ? 1 : 0;
      mark_committed(at, false);
    } else {
      here.state &= ~(extent::after_free_flag | extent::pinned_flag);
    }
    at = next;
  }
}

// Whether an item is whole; if so, the extents behind its head are pinned, as those of no other.
bool cache_store::is_valid(block head) noexcept {
  const item_head& item = memory_.item_at(head);
  const std::size_t first_payload = memory_.extent_at(head).payload_bytes();
  const std::size_t key_bytes = first_payload < sizeof(item_head) ? 0 : item.key_bytes();
  if (key_bytes == 0 || key_bytes > key_bytes_max ||
      first_payload < sizeof(item_head) + key_bytes || item.value_bytes > item_bytes_max_)
    return false;

  const auto is_committed = [&](block part) {
    return part >= heap_.first() && part < heap_.end() &&
           (committed_[part / 64] >> (part % 64) & 1) != 0;
  };
  std::size_t left = item.payload_bytes();
  left -= std::min(left, first_payload);
  block last = head;
  // Each step pins an extent that was not pinned, so that a forged circle ends.
  while (left > 0) {
    const block part = memory_.extent_at(last).next;
    if (!is_committed(part) || memory_.extent_at(part).has(extent::head_flag | extent::pinned_flag))
      break;
    memory_.extent_at(part).state |= extent::pinned_flag;
    left -= std::min(left, memory_.extent_at(part).payload_bytes());
    last = part;
  }
  if (left == 0 && memory_.extent_at(last).next == head && item.check == check_of(head))
    return true;
  for (block part = head; part != last;) {
    part = memory_.extent_at(part).next;
    memory_.extent_at(part).state &= ~extent::pinned_flag;
  }
  return false;
}

// After this the bits are those of whole items.
void cache_store::check_items() noexcept {
  for (block at = next_committed(heap_.first()); at < heap_.end(); at = next_committed(at + 1)) {
    if (!memory_.extent_at(at).has(extent::head_flag))
      continue;
    if (is_valid(at)) {
      ++stats_.items;
      stats_.item_bytes += memory_.item_at(at).key_bytes() + memory_.item_at(at).value_bytes;
    } else {
      ++stats_.damaged;
      mark_committed(at, false);
    }
  }
  for (block at = next_committed(heap_.first()); at < heap_.end(); at = next_committed(at + 1)) {
    extent& here = memory_.extent_at(at);
    if (!here.has(extent::head_flag | extent::pinned_flag))
      mark_committed(at, false);  // of no item: the process died while it committed or freed one
    here.state &= ~extent::pinned_flag;
  }
}

void cache_store::free_gaps() noexcept {
  block end = heap_.first();
  while (end < heap_.end()) {
    const block next = next_committed(end);
    heap_.add_free(end, next - end);
    end = next < heap_.end() ? next + memory_.extent_at(next).length() : next;
  }
}

// The index takes memory and may evict for it items that this loop comes to later.
void cache_store::fill_index() noexcept {
  for (block at = next_committed(heap_.first()); at < heap_.end(); at = next_committed(at + 1)) {
    if (!memory_.extent_at(at).has(extent::head_flag))
      continue;
    const atbus::bytes_view key = memory_.key_of(at);
    const slot_index::key_place place = index_.place_of(key);
    const item_head& item = memory_.item_at(at);
    block dropped = at;  // the process died while it replaced one of two by the other
    if (index_.find(key, place) == nullptr)
      dropped =
          index_.insert(at, place, item.payload_bytes(), item.expiry_ms() != item_head::no_expiry);
    if (dropped != 0)
      retire(dropped, 0);
    resize_index();
  }
}

}  // namespace cache
