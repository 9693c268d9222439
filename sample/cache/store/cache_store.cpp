#include "cache_store.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <ctime>

#include "hash.h"

namespace cache {

using atbus::errc;

// --- items -------------------------------------------------------------------------------------

std::int64_t cache_store::now_ms() const noexcept {
  if (clock_ != nullptr)
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_->now()).count();
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool cache_store::has_expired(block head) const noexcept {
  const std::uint64_t expiry = memory_.item_at(head).expiry_ms();
  return expiry != item_head::no_expiry && static_cast<std::int64_t>(expiry) <= now_ms();
}

// Of all that an item consists of, but not of how its extents are linked: wrong links lead to other
// bytes.
std::uint32_t cache_store::check_of(block head) const noexcept {
  std::uint64_t state = seed_;
  std::size_t left = memory_.item_at(head).payload_bytes();
  std::size_t skipped = sizeof(item_head::check);
  for (block part = head; left > 0; part = memory_.extent_at(part).next) {
    const std::size_t here = std::min(left, memory_.extent_at(part).payload_bytes());
    state = hash_bytes({memory_.payload_of(part) + skipped, here - skipped}, state);
    skipped = 0;
    left -= here;
  }
  return static_cast<std::uint32_t>(state);
}

atbus::status cache_store::refusal(atbus::bytes_view key, std::size_t value_bytes,
                                   std::chrono::milliseconds time_to_live) const noexcept {
  if (key.empty() || key.size() > key_bytes_max)
    return errc::invalid_name;
  if (time_to_live.count() <= 0)
    return errc::invalid_argument;
  if (value_bytes > item_bytes_max_ - key.size())
    return {errc::message_too_large, key.size() + value_bytes, item_bytes_max_};
  return {};
}

// An item without its value, not committed. 0 if there is no room.
block cache_store::make(atbus::bytes_view key, std::size_t value_bytes,
                        std::chrono::milliseconds time_to_live) noexcept {
  const std::size_t head_bytes = sizeof(item_head) + key.size();
  sweep(1);
  resize_index();  // not after the set: it may evict any item
  const block head = make_room(head_bytes + value_bytes, head_bytes);
  if (head == 0)
    return 0;
  std::uint64_t expiry = item_head::no_expiry;
  const std::int64_t now = std::max<std::int64_t>(now_ms(), 0);
  if (time_to_live.count() < static_cast<std::int64_t>(item_head::no_expiry) - now)
    expiry = static_cast<std::uint64_t>(now + time_to_live.count());
  memory_.extent_at(head).state |= extent::pinned_flag;
  memory_.item_at(head) = {0, static_cast<std::uint32_t>(value_bytes), expiry << 16 | key.size()};
  std::memcpy(memory_.payload_of(head) + head_bytes - key.size(), key.data(), key.size());
  return head;
}

// Evicts until the item fits: at first into a few pieces; once a quarter more than its size is
// free, into pieces of any useful length. If four times its size did not help, no piece has room
// for the head, and neighbours are evicted.
block cache_store::make_room(std::size_t bytes, std::size_t head_bytes) noexcept {
  constexpr std::uint32_t useful_blocks = 4;
  const std::uint32_t few = std::clamp(extent_heap::blocks_for(bytes) / 32, useful_blocks, 1024U);
  const std::size_t free_before = heap_.free_bytes();
  for (;;) {
    const std::size_t free_now = heap_.free_bytes();
    const std::uint32_t shortest = free_now > bytes + bytes / 4 ? useful_blocks : few;
    if (const block head = heap_.take_ring(bytes, head_bytes, shortest); head != 0)
      return head;
    if (free_now > free_before + 4 * bytes && clear_window(head_bytes))
      continue;
    if (!evict_one())
      return 0;
  }
}

// --- the commit --------------------------------------------------------------------------------

// What a process that is killed leaves is a prefix of its stores in program order: the kernel stops
// it between two instructions, and the processor completes what came before. So only the compiler's
// order matters, and the orders here are for the compiler. The next process starts after the kill;
// it needs no partner.
void cache_store::mark_committed(block part, bool committed) noexcept {
  std::atomic_ref word{committed_[part / 64]};
  const std::uint64_t bit = std::uint64_t{1} << (part % 64);
  const std::uint64_t old = word.load(std::memory_order_relaxed);
  // Release: the item's bytes are in place before its bit.
  word.store(committed ? old | bit : old & ~bit, std::memory_order_release);
  // A bit is gone before anything writes to the memory it stood for.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Makes an item visible, instead of the one that has its key.
void cache_store::publish(block head) noexcept {
  item_head& item = memory_.item_at(head);
  memory_.extent_at(head).state &= ~extent::pinned_flag;
  if (committed_ != nullptr) {
    item.check = check_of(head);
    // The head's bit is the commit: without it recovery frees the other extents.
    for (block part = memory_.extent_at(head).next; part != head;
         part = memory_.extent_at(part).next)
      mark_committed(part, true);
    mark_committed(head, true);
  }
  ++stats_.items;
  stats_.item_bytes += item.key_bytes() + item.value_bytes;

  const atbus::bytes_view key = memory_.key_of(head);
  const slot_index::key_place place = index_.place_of(key);
  const bool expires = item.expiry_ms() != item_head::no_expiry;
  if (slot* const old = index_.find(key, place); old != nullptr) {
    const auto replaced = static_cast<block>(old->where);
    index_.replace(*old, head, item.payload_bytes(), expires);
    retire(replaced, 0);
  } else if (const block displaced = index_.insert(head, place, item.payload_bytes(), expires);
             displaced != 0) {
    ++stats_.evictions;
    retire(displaced, 0);
  }
}

// Frees what is no longer in the index. Returns the free run that `watched`, one of its blocks, is
// in then.
free_run cache_store::retire(block head, block watched) noexcept {
  const item_head& item = memory_.item_at(head);
  --stats_.items;
  stats_.item_bytes -= item.key_bytes() + item.value_bytes;
  return release(head, watched);
}

free_run cache_store::release(block head, block watched) noexcept {
  if (committed_ != nullptr) {
    block part = head;  // its bit first: it is the one that counts
    do {
      mark_committed(part, false);
      part = memory_.extent_at(part).next;
    } while (part != head);
  }
  free_run around{};
  block part = head;
  do {
    const block next = memory_.extent_at(part).next;
    const free_run run = heap_.give(part);
    if (watched - run.start < run.length)
      around = run;
    part = next;
  } while (part != head);
  return around;
}

// --- eviction ----------------------------------------------------------------------------------

bool cache_store::evict_one() noexcept {
  slot* const victim = index_.find_victim();
  if (victim == nullptr)
    return false;
  const auto head = static_cast<block>(victim->where);
  index_.bury(*victim);
  ++stats_.evictions;
  retire(head, 0);
  return true;
}

// Evicts neighbours, wherever they are, until some free run has room for `bytes`.
bool cache_store::clear_window(std::size_t bytes) noexcept {
  constexpr int attempts = 8;
  const std::uint32_t wanted = extent_heap::blocks_for(bytes);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const slot* const any = index_.draw();
    if (any == nullptr)
      return false;
    free_run run = heap_.run_before(static_cast<block>(any->where));
    while (run.length < wanted) {
      const block behind = run.start + run.length;
      const block head = memory_.head_of(behind);
      if (memory_.extent_at(head).has(extent::pinned_flag))
        break;
      const atbus::bytes_view key = memory_.key_of(head);
      slot* const found = index_.find(key, index_.place_of(key));
      if (found != nullptr && found->where == head)  // else fill_index has not come to it
        index_.bury(*found);
      ++stats_.evictions;
      run = retire(head, behind);
    }
    if (run.length >= wanted)
      return true;
  }
  return false;
}

void cache_store::resize_index() noexcept {
  if (index_.wants_to_grow()) {
    if (!index_.grow() && clear_window(slot_index::segment_room))
      index_.grow();
    return;
  }
  // Large items come much more rarely than the small ones that the index was made for.
  for (int merged = 0; merged < 32 && index_.wants_to_shrink(); ++merged) {
    for (const block dropped : index_.shrink()) {
      if (dropped == 0)
        break;
      ++stats_.evictions;
      retire(dropped, 0);
    }
  }
}

void cache_store::sweep(std::size_t buckets) noexcept {
  for (; buckets > 0; --buckets) {
    swept_ = swept_ + 1 < index_.buckets() ? swept_ + 1 : 0;
    for (slot& each : index_.bucket_at(swept_).slots) {
      const auto head = static_cast<block>(each.where);
      if (!each.live || !each.expires || !has_expired(head))
        continue;
      index_.erase(each);
      ++stats_.expired;
      retire(head, 0);
    }
  }
}

// --- calls -------------------------------------------------------------------------------------

std::optional<value_pieces> cache_store::get(atbus::bytes_view key) noexcept {
  slot* const found = index_.find(key, index_.place_of(key));
  if (found == nullptr || (found->expires && has_expired(static_cast<block>(found->where)))) {
    ++stats_.misses;
    return std::nullopt;
  }
  ++stats_.hits;
  const auto head = static_cast<block>(found->where);
  index_.touch(*found);
  return value_pieces{memory_, head};
}

atbus::status cache_store::set(atbus::bytes_view key, std::span<const atbus::bytes_view> value,
                               std::chrono::milliseconds time_to_live) noexcept {
  std::size_t value_bytes = 0;
  for (const atbus::bytes_view piece : value)
    value_bytes += piece.size();
  if (const atbus::status refused = refusal(key, value_bytes, time_to_live); !refused)
    return refused;
  const block head = make(key, value_bytes, time_to_live);
  if (head == 0)
    return errc::no_space;
  const writable_pieces room{memory_, head};
  auto into = room.begin();
  std::size_t filled = 0;  // of the piece that is filled now
  for (atbus::bytes_view piece : value) {
    while (!piece.empty()) {
      const std::span<std::byte> to = (*into).subspan(filled);
      const std::size_t count = std::min(to.size(), piece.size());
      std::memcpy(to.data(), piece.data(), count);
      piece = piece.subspan(count);
      filled += count;
      if (count == to.size()) {
        ++into;
        filled = 0;
      }
    }
  }
  publish(head);
  return {};
}

atbus::result<reservation> cache_store::reserve(atbus::bytes_view key, std::size_t value_bytes,
                                                std::chrono::milliseconds time_to_live) {
  if (const atbus::status refused = refusal(key, value_bytes, time_to_live); !refused)
    return atbus::error{refused};
  const block head = make(key, value_bytes, time_to_live);
  if (head == 0)
    return atbus::error{errc::no_space, "uncommitted reservations leave no room for the item"};
  return reservation{*this, head};
}

void cache_store::commit(reservation filled) noexcept {
  assert(filled.store_ == this && filled.head_ != 0);
  publish(std::exchange(filled.head_, 0));
}

bool cache_store::erase(atbus::bytes_view key) noexcept {
  slot* const found = index_.find(key, index_.place_of(key));
  if (found == nullptr)
    return false;
  const auto head = static_cast<block>(found->where);
  const bool was_there = !has_expired(head);
  stats_.expired += was_there ? 0 : 1;
  index_.erase(*found);
  retire(head, 0);
  return was_there;
}

store_stats cache_store::stats() const noexcept {
  store_stats now = stats_;
  now.memory_bytes = arena_.bytes();
  now.index_bytes = index_.segments() * (slot_index::segment_room + sizeof(extent));
  now.free_bytes = heap_.free_bytes();
  return now;
}

reservation::~reservation() {
  if (head_ != 0)
    store_->release(head_, 0);
}

writable_pieces reservation::pieces() const noexcept {
  return {store_->memory_, head_};
}

}  // namespace cache
