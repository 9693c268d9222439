/// @class cache::cache_store
/// A bounded cache of keys and values. Index, keys, values and all overhead lie in one arena of a
/// given size; when it is full, what is worth least is evicted.
///
/// ```cpp
/// auto store = cache::cache_store::open({.memory_bytes = 64 << 20});
/// if (!store) return store.error().print(), 1;
/// if (auto s = store->set(atbus::as_bytes("key"), {{atbus::as_bytes("value")}}); !s) s.print();
/// if (auto value = store->get(atbus::as_bytes("key"))) {
///   for (atbus::bytes_view piece : *value) write(piece);
/// }
/// ```
///
/// Memory: the process needs memory_bytes plus less than 64 KiB. An item costs 24 bytes, half a
/// block (8 bytes) of rounding and 16 to 20 bytes of the index; each further piece costs 8. The
/// index takes more, up to 1/40 of the arena, if that is cheap because the items are large. A kept
/// arena spends 1/128 on the bitmap of what is committed.
///
/// Kept arenas: with `keep_file` the arena is a file. A process that is killed at any instruction
/// leaves all items that were committed; open finds them again, checks each and drops what is
/// damaged. An item that was being replaced has its old value or its new one. Scores start anew.
/// Power failures are not covered beyond that damaged items are dropped.
///
/// Ownership: the store owns all memory. Views and reservations refer to it.
///
/// Threads: one thread uses a store.
#pragma once

#include <atbus/block_pool.hpp>
#include <atbus/bytes.hpp>
#include <atbus/clock.hpp>
#include <atbus/status.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "arena.h"
#include "extent_heap.h"
#include "item.h"
#include "slot_index.h"

namespace cache {

/// What a store is made with.
struct store_options {
  /// Bytes of the arena, rounded down to whole pages: memory_bytes_min to memory_bytes_max.
  std::size_t memory_bytes = std::size_t{64} << 20;
  /// The kind of memory to ask the kernel for; both are best effort.
  atbus::page_options pages{};
  /// A file that holds the arena and survives the process; empty: anonymous memory.
  std::string keep_file{};
  /// Times to live are measured with it; it outlives the store. Null: the wall clock, which a kept
  /// file needs, because it may be opened after the machine has restarted.
  const atbus::clock_source* clock = nullptr;

  static constexpr std::size_t memory_bytes_min = std::size_t{1} << 20;   ///< 1 MiB
  static constexpr std::size_t memory_bytes_max = std::size_t{32} << 30;  ///< 32 GiB
};

/// A store's counters, and what it holds.
struct store_stats {
  std::uint64_t items = 0;         ///< Items, some perhaps expired.
  std::uint64_t item_bytes = 0;    ///< Bytes of their keys and values.
  std::uint64_t memory_bytes = 0;  ///< Bytes of the arena.
  std::uint64_t index_bytes = 0;   ///< Bytes of the index.
  std::uint64_t free_bytes = 0;    ///< Bytes in no item and not in the index.
  std::uint64_t hits = 0;          ///< get calls that found an item.
  std::uint64_t misses = 0;        ///< get calls that found none.
  std::uint64_t evictions = 0;     ///< Items given up for others.
  std::uint64_t expired = 0;       ///< Items removed because their time was over.
  std::uint64_t damaged = 0;       ///< Items of a kept arena that open dropped.
};

/// A value in the arena: pieces of contiguous bytes, in order. Valid until the store's next set,
/// reserve, commit, erase, sweep or clear.
template <class Byte>
class basic_pieces {
 public:
  /// Steps through the pieces.
  class iterator {
   public:
    iterator(block_memory memory, block part, std::size_t skipped, std::size_t left) noexcept
        : memory_{memory}, part_{part}, skipped_{skipped}, left_{left} {}
    std::span<Byte> operator*() const noexcept {
      return {memory_.payload_of(part_) + skipped_, piece_bytes()};
    }
    iterator& operator++() noexcept {
      left_ -= piece_bytes();
      skipped_ = 0;
      part_ = memory_.extent_at(part_).next;
      return *this;
    }
    bool operator==(const iterator& other) const noexcept { return left_ == other.left_; }

   private:
    [[nodiscard]] std::size_t piece_bytes() const noexcept {
      const std::size_t room = memory_.extent_at(part_).payload_bytes() - skipped_;
      return room < left_ ? room : left_;
    }
    block_memory memory_;
    block part_;
    std::size_t skipped_;
    std::size_t left_;
  };

  basic_pieces(block_memory memory, block head) noexcept : memory_{memory}, head_{head} {}
  /// Bytes in all.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.item_at(head_).value_bytes; }
  /// The first piece. There is none, and it equals end(), if the value is empty.
  [[nodiscard]] iterator begin() const noexcept {
    const std::size_t skipped = sizeof(item_head) + memory_.item_at(head_).key_bytes();
    // A head without room for a byte of the value would be an empty piece.
    const extent& head = memory_.extent_at(head_);
    if (head.payload_bytes() == skipped)
      return {memory_, head.next, 0, size()};
    return {memory_, head_, skipped, size()};
  }
  [[nodiscard]] iterator end() const noexcept { return {memory_, 0, 0, 0}; }

 private:
  block_memory memory_;
  block head_;
};

using value_pieces = basic_pieces<const std::byte>;
using writable_pieces = basic_pieces<std::byte>;

class cache_store;

/// Room for an item that no get finds before commit. Given back when it is destroyed before. It
/// must not outlive its store.
class reservation {
 public:
  reservation(reservation&& other) noexcept
      : store_{other.store_}, head_{std::exchange(other.head_, 0)} {}
  reservation& operator=(reservation&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(head_, other.head_);
    return *this;
  }
  ~reservation();
  /// Where the value goes: it is not initialized.
  [[nodiscard]] writable_pieces pieces() const noexcept;

 private:
  friend class cache_store;
  reservation(cache_store& store, block head) noexcept : store_{&store}, head_{head} {}
  cache_store* store_;
  block head_;
};

class cache_store {
 public:
  static constexpr std::size_t key_bytes_max = 1024;
  /// Never expires.
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// Errors: invalid_argument (memory_bytes), out_of_memory; of a file also no_space, denied (no
  /// permission, or another process has it open), geometry_mismatch (it has another size),
  /// not_a_segment (it was not made by a store, or its header is damaged), version_mismatch,
  /// not_supported (not a regular file), system_error.
  static atbus::result<std::unique_ptr<cache_store>> open(const store_options& options);
  cache_store(const cache_store&) = delete;
  cache_store& operator=(const cache_store&) = delete;
  ~cache_store() = default;

  /// The value; nothing if there is none. Does not invalidate other values.
  [[nodiscard]] std::optional<value_pieces> get(atbus::bytes_view key) noexcept;

  /// Makes the pieces, joined, the value of a key, for a time to live that is more than 0. The
  /// pieces must not be in the arena. Errors: invalid_name (key of 0 or more than key_bytes_max
  /// bytes), invalid_argument (the time), message_too_large (facts: bytes of key and value, and the
  /// limit), no_space (reservations hold too much).
  atbus::status set(atbus::bytes_view key, std::span<const atbus::bytes_view> value,
                    std::chrono::milliseconds time_to_live = forever) noexcept;

  /// set in two steps: room to be filled, which commit makes an item. The key has its old value
  /// until then. Errors as of set.
  atbus::result<reservation> reserve(atbus::bytes_view key, std::size_t value_bytes,
                                     std::chrono::milliseconds time_to_live = forever);
  void commit(reservation filled) noexcept;

  /// Whether there was one.
  bool erase(atbus::bytes_view key) noexcept;
  /// Removes what has expired from some buckets of the index, and goes on there the next time. set
  /// and reserve look at one.
  void sweep(std::size_t buckets) noexcept;

  /// The most bytes that a key and its value may have together: half of the arena, about.
  [[nodiscard]] std::size_t item_bytes_max() const noexcept { return item_bytes_max_; }
  [[nodiscard]] store_stats stats() const noexcept;

 private:
  friend class reservation;
  cache_store() = default;
  struct header;

  atbus::error lay_out();
  void check_extents() noexcept;
  void check_items() noexcept;
  void free_gaps() noexcept;
  void fill_index() noexcept;
  [[nodiscard]] bool is_valid(block head) noexcept;
  [[nodiscard]] block next_committed(block from) const noexcept;

  [[nodiscard]] std::int64_t now_ms() const noexcept;
  [[nodiscard]] bool has_expired(block head) const noexcept;
  [[nodiscard]] std::uint32_t check_of(block head) const noexcept;
  [[nodiscard]] atbus::status refusal(atbus::bytes_view key, std::size_t value_bytes,
                                      std::chrono::milliseconds time_to_live) const noexcept;
  block make(atbus::bytes_view key, std::size_t value_bytes,
             std::chrono::milliseconds time_to_live) noexcept;
  block make_room(std::size_t bytes, std::size_t head_bytes) noexcept;
  void publish(block head) noexcept;
  void resize_index() noexcept;

  bool evict_one() noexcept;
  bool clear_window(std::size_t bytes) noexcept;
  void mark_committed(block part, bool committed) noexcept;
  free_run retire(block head, block watched) noexcept;
  free_run release(block head, block watched) noexcept;

  arena arena_;
  block_memory memory_;
  std::uint64_t* committed_ = nullptr;  // of a kept arena: a bit for each extent of an item
  std::uint64_t seed_ = 0;              // of checks; secret
  const atbus::clock_source* clock_ = nullptr;
  std::size_t item_bytes_max_ = 0;
  std::size_t swept_ = 0;
  extent_heap heap_;
  slot_index index_;
  store_stats stats_;
};

}  // namespace cache
