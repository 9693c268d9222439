// Which item has a key, and which item is worth least.
//
// Buckets of one cache line with eight slots; a key may be in two of them. The table grows and
// shrinks by one bucket at a time (Litwin, "Linear hashing", VLDB 1980), in segments that are taken
// from the heap and that a directory of fixed size leads to.
//
// The policy: each access adds to the score of its slot. A hand goes around the buckets and takes
// an eighth off every score that it passes, so that a score is a frequency that forgets (LRFU: Lee
// et al., IEEE ToC 2001). A victim is the item of least score, weighed by size, among a few buckets
// drawn at random (as in Redis; hyperbolic caching: Blankstein et al., ATC 2017). The slot of a
// victim stays as a *ghost* with its score until it is needed: a key that returns has its history.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "extent_heap.h"
#include "item.h"

namespace cache {

// One word, so that a bucket is a cache line. 0 is an empty slot.
struct slot {
  std::uint64_t live : 1;
  std::uint64_t expires : 1;  // of an item: it has a time to live
  std::uint64_t score : 14;
  std::uint64_t size_class : 7;  // four for each power of two
  std::uint64_t tag : 9;         // of the hash
  std::uint64_t where : 32;      // block of the item; of a ghost: the hash's first 32 bits
};
static_assert(sizeof(slot) == 8);

struct bucket {
  std::array<slot, 8> slots;
};
static_assert(sizeof(bucket) == 64);

class slot_index {
 public:
  // `directory` stays where it is. The index has up to `cheap_slots` for the ghosts of few items.
  bool start(block_memory memory, extent_heap& heap, block* directory, std::size_t directory_size,
             std::size_t cheap_slots, std::uint64_t seed) noexcept;
  static constexpr std::size_t segment_bytes = 4096;
  // What a segment takes of the heap: it is aligned to a bucket, behind the head of its extent.
  static constexpr std::size_t segment_room = segment_bytes + sizeof(bucket) - sizeof(extent);

  struct key_place {
    std::uint32_t hash;
    std::uint32_t tag;
  };
  [[nodiscard]] key_place place_of(atbus::bytes_view key) const noexcept;
  // The slot of the item with that key; nullptr if there is none.
  [[nodiscard]] slot* find(atbus::bytes_view key, key_place place) const noexcept;

  // The key is in no slot but perhaps in a ghost. Returns the item that had to make room, or 0: its
  // slot is gone, its memory is the caller's to free. Needs no memory.
  [[nodiscard]] block insert(block head, key_place place, std::size_t bytes, bool expires) noexcept;
  // The item of that slot lies elsewhere now.
  void replace(slot& used, block head, std::size_t bytes, bool expires) noexcept;
  void erase(slot& gone) noexcept;
  void touch(slot& used) noexcept;

  // The slot of the item that is worth least among some; nullptr if there is no item.
  [[nodiscard]] slot* find_victim() noexcept;
  // The victim's slot becomes a ghost.
  void bury(slot& victim) noexcept;
  // Any item; nullptr if there is none.
  [[nodiscard]] slot* draw() noexcept;

  [[nodiscard]] bool wants_to_grow() const noexcept {
    return wanted_slots() > slots() && buckets_ < directory_size_ * segment_buckets;
  }
  [[nodiscard]] bool wants_to_shrink() const noexcept {
    return wanted_slots() * 2 < slots() && buckets_ > segment_buckets;
  }
  // False if there is no memory for a segment.
  bool grow() noexcept;
  // Returns the items for which no room was left in the end: their slots are gone.
  std::array<block, 8> shrink() noexcept;

  [[nodiscard]] bucket& bucket_at(std::size_t number) const noexcept;
  [[nodiscard]] std::size_t buckets() const noexcept { return buckets_; }
  [[nodiscard]] std::size_t items() const noexcept { return items_; }
  [[nodiscard]] std::size_t segments() const noexcept {
    return (buckets_ + segment_buckets - 1) / segment_buckets;
  }

 private:
  static constexpr std::size_t segment_buckets = segment_bytes / sizeof(bucket);
  static constexpr std::size_t slots_per_item_min = 2;  // half of them for ghosts
  static constexpr std::size_t slots_per_item_max = 12;
  static constexpr std::uint32_t score_of_access = 256;
  static constexpr std::uint32_t score_forgotten = 16;
  static constexpr std::uint32_t tag_max = (1U << 9) - 1;
  static constexpr std::uint32_t score_max = (1U << 14) - 1;
  static constexpr std::size_t accesses_per_item = 3;  // in a revolution of the hand

  [[nodiscard]] std::size_t wanted_slots() const noexcept;
  [[nodiscard]] std::size_t slots() const noexcept { return buckets_ * 8; }
  [[nodiscard]] std::size_t address(std::uint32_t hash) const noexcept;
  static std::uint32_t other_hash(key_place place) noexcept {
    return place.hash ^ ((place.tag + 1) * 0x9e3779b1U);
  }
  [[nodiscard]] key_place place_of(const slot& filled) const noexcept;
  [[nodiscard]] std::uint64_t worth(const slot& item) const noexcept;
  [[nodiscard]] bool is_less(const slot& left, const slot& right) const noexcept;
  void decay() noexcept;
  std::uint64_t random() noexcept;

  block_memory memory_;
  extent_heap* heap_ = nullptr;
  block* directory_ = nullptr;
  std::size_t directory_size_ = 0;
  std::size_t cheap_slots_ = 0;
  std::size_t buckets_ = 0;
  std::size_t items_ = 0;
  std::size_t hand_ = 0;
  std::size_t hand_due_ = 0;  // buckets that the hand is behind, times accesses in a revolution
  std::uint64_t seed_ = 0;
  std::uint64_t random_ = 0;
  std::array<std::uint64_t, 128> weights_{};
};

}  // namespace cache
