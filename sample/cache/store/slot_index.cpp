#include "slot_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "hash.h"

namespace cache {

namespace {

// Of the hit rates of objects on mixed sizes, those with this exponent are the best that we
// measured (README.md). With 0 an item's size would not count, with 1 bytes would count alone.
constexpr double size_exponent = 0.7;

std::uint64_t size_class_of(std::size_t bytes) noexcept {
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 4);
  const auto power = static_cast<unsigned>(std::bit_width(size)) - 1;
  return std::min<std::uint64_t>(4 * power + ((size >> (power - 2)) & 3), 127);
}

}  // namespace

bool slot_index::start(block_memory memory, extent_heap& heap, block* directory,
                       std::size_t directory_size, std::size_t cheap_slots,
                       std::uint64_t seed) noexcept {
  *this = {};
  memory_ = memory;
  heap_ = &heap;
  directory_ = directory;
  directory_size_ = directory_size;
  cheap_slots_ = cheap_slots;
  seed_ = seed;
  random_ = seed | 1;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    weights_[i] =
        static_cast<std::uint64_t>(std::exp2(46 - size_exponent * static_cast<double>(i) / 4));
  for (std::size_t i = 0; i < segment_buckets; ++i) {
    if (!grow())
      return false;
  }
  return true;
}

std::uint64_t slot_index::random() noexcept {  // xorshift64 (Marsaglia 2003)
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

slot_index::key_place slot_index::place_of(atbus::bytes_view key) const noexcept {
  const std::uint64_t hash = hash_bytes(key, seed_);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32) & tag_max};
}

slot_index::key_place slot_index::place_of(const slot& filled) const noexcept {
  const auto where = static_cast<std::uint32_t>(filled.where);
  if (filled.live)
    return place_of(memory_.key_of(where));
  return {where, static_cast<std::uint32_t>(filled.tag)};
}

std::size_t slot_index::address(std::uint32_t hash) const noexcept {
  const std::size_t mask = std::bit_ceil(buckets_) - 1;
  const std::size_t whole = hash & mask;
  return whole < buckets_ ? whole : whole & (mask >> 1);
}

bucket& slot_index::bucket_at(std::size_t number) const noexcept {
  // A segment is the part of its extent that is aligned to a bucket.
  constexpr block aligned = sizeof(bucket) / block_bytes;
  const block start = directory_[number / segment_buckets] / aligned * aligned + aligned;
  std::byte* const segment = memory_.at(start);
  return reinterpret_cast<bucket*>(segment)[number % segment_buckets];
}

slot* slot_index::find(atbus::bytes_view key, key_place place) const noexcept {
  for (const std::uint32_t hash : {place.hash, other_hash(place)}) {
    for (slot& each : bucket_at(address(hash)).slots) {
      if (!each.live || each.tag != place.tag)
        continue;
      const atbus::bytes_view found = memory_.key_of(static_cast<block>(each.where));
      if (found.size() == key.size() && std::memcmp(found.data(), key.data(), key.size()) == 0)
        return &each;
    }
  }
  return nullptr;
}

std::uint64_t slot_index::worth(const slot& item) const noexcept {
  return item.score * weights_[item.size_class];
}

// What is given up first: an empty slot, then the ghost of least score, then the item of least
// worth.
bool slot_index::is_less(const slot& left, const slot& right) const noexcept {
  if (left.live != right.live)
    return right.live;
  return left.live ? worth(left) < worth(right) : left.score < right.score;
}

block slot_index::insert(block head, key_place place, std::size_t bytes, bool expires) noexcept {
  std::uint32_t score = score_of_access;
  slot* least = nullptr;
  for (const std::uint32_t hash : {place.hash, other_hash(place)}) {
    for (slot& each : bucket_at(address(hash)).slots) {
      if (!each.live && each.score != 0 && each.where == place.hash && each.tag == place.tag) {
        score = std::min(static_cast<std::uint32_t>(each.score) + score_of_access, score_max);
        each = {};
      }
      if (least == nullptr || is_less(each, *least))
        least = &each;
    }
  }
  const block displaced = least->live ? static_cast<block>(least->where) : 0;
  items_ += displaced == 0;
  *least = {1, expires, score & score_max, size_class_of(bytes) & 127, place.tag & tag_max, head};
  decay();
  return displaced;
}

void slot_index::replace(slot& used, block head, std::size_t bytes, bool expires) noexcept {
  used.where = head;
  used.size_class = size_class_of(bytes) & 127;
  used.expires = expires;
  touch(used);
}

void slot_index::erase(slot& gone) noexcept {
  gone = {};
  --items_;
}

void slot_index::touch(slot& used) noexcept {
  const auto score = static_cast<std::uint32_t>(used.score);
  used.score = std::min(score + score_of_access, score_max) & score_max;
  decay();
}

void slot_index::decay() noexcept {
  const std::size_t revolution = std::max(items_ * accesses_per_item, buckets_);
  hand_due_ += buckets_;
  if (hand_due_ < revolution)
    return;
  hand_due_ = std::min(hand_due_ - revolution, revolution);
  hand_ = hand_ + 1 < buckets_ ? hand_ + 1 : 0;
  for (slot& each : bucket_at(hand_).slots) {
    each.score = (each.score - each.score / 8) & score_max;
    if (!each.live && each.score < score_forgotten)
      each = {};
  }
}

std::size_t slot_index::wanted_slots() const noexcept {
  return std::clamp(cheap_slots_, items_ * slots_per_item_min, items_ * slots_per_item_max);
}

slot* slot_index::find_victim() noexcept {
  constexpr std::size_t looks = 32;
  constexpr std::size_t rounds_max = 4;
  std::array<bucket*, 8> drawn;
  slot* least = nullptr;
  std::size_t looked_at = 0;
  for (std::size_t round = 0; round < rounds_max && looked_at < looks; ++round) {
    for (bucket*& each : drawn) {  // their cache misses overlap
      each = &bucket_at(random() % buckets_);
      __builtin_prefetch(each);
    }
    for (bucket* const each : drawn) {
      for (slot& candidate : each->slots) {
        if (!candidate.live)
          continue;
        ++looked_at;
        if (least == nullptr || worth(candidate) < worth(*least))
          least = &candidate;
      }
    }
  }
  return least != nullptr ? least : draw();
}

slot* slot_index::draw() noexcept {
  std::size_t number = random() % buckets_;
  for (std::size_t i = 0; i < buckets_ && items_ > 0; ++i) {
    for (slot& each : bucket_at(number).slots) {
      if (each.live)
        return &each;
    }
    number = number + 1 < buckets_ ? number + 1 : 0;
  }
  return nullptr;
}

void slot_index::bury(slot& victim) noexcept {
  const key_place place = place_of(victim);
  victim = {0, 0, victim.score, victim.size_class, place.tag & tag_max, place.hash};
  if (victim.score < score_forgotten)
    victim = {};
  --items_;
}

// Moves about half of one bucket to a new one at the end.
bool slot_index::grow() noexcept {
  if (buckets_ == directory_size_ * segment_buckets)
    return false;
  if (buckets_ % segment_buckets == 0) {
    const block made = heap_->take(segment_room);
    if (made == 0)
      return false;
    memory_.extent_at(made).state |= extent::pinned_flag;
    directory_[buckets_ / segment_buckets] = made;
    std::memset(&bucket_at(buckets_), 0, segment_bytes);
  }
  const std::size_t made = buckets_++;
  if (made == 0)
    return true;
  bucket& to = bucket_at(made);
  bucket& from = bucket_at(made & ((std::bit_ceil(buckets_) - 1) >> 1));
  for (std::size_t i = 0; i < from.slots.size(); ++i) {
    slot& each = from.slots[i];
    if (!each.live && each.score == 0)
      continue;
    const key_place place = place_of(each);
    const std::size_t old_mask = (std::bit_ceil(buckets_) - 1) >> 1;
    const bool by_first = (place.hash & old_mask) == (made & old_mask);
    if (address(by_first ? place.hash : other_hash(place)) == made) {
      to.slots[i] = each;
      each = {};
    }
  }
  return true;
}

// The reverse: merges the last bucket into the one that it was split from.
std::array<block, 8> slot_index::shrink() noexcept {
  std::array<block, 8> dropped{};
  const std::size_t gone = --buckets_;
  bucket& to = bucket_at(gone & ((std::bit_ceil(gone + 1) - 1) >> 1));
  const bucket from = bucket_at(gone);
  std::size_t count = 0;
  for (const slot& each : from.slots) {
    slot& least = *std::min_element(
        to.slots.begin(), to.slots.end(),
        [&](const slot& left, const slot& right) { return is_less(left, right); });
    const bool takes_its_place = is_less(least, each);
    const slot& loser = takes_its_place ? least : each;
    if (loser.live) {
      dropped[count++] = static_cast<block>(loser.where);
      --items_;
    }
    if (takes_its_place)
      least = each;
  }
  if (gone % segment_buckets == 0) {
    block& segment = directory_[gone / segment_buckets];
    heap_->give(segment);
    segment = 0;
  }
  return dropped;
}

}  // namespace cache
