// The yardstick: the least code that moves messages from one process to another through a ring of
// bytes. It shares nothing with the channels and lacks all they add: no doorbell, no liveness, no
// recovery, no second sender, and the other side's values are believed.
//
// Positions are counters that only grow; each side keeps a copy of the other's and looks again only
// when that copy says there is nothing to do. A record is one word with the length, then the
// message, rounded up to 8 bytes; it never wraps: the rest of a lap is skipped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atbus/bench/clock.h"
#include "atbus/bench/control_block.h"
#include "atbus/bench/message.h"

namespace atbus::bench {

struct ring_positions {
  alignas(line_bytes) std::atomic<std::uint64_t> tail;  // written by the sender
  alignas(line_bytes) std::atomic<std::uint64_t> head;  // written by the receiver
};

inline constexpr std::uint64_t ring_header_bytes = 8;
inline constexpr std::uint64_t ring_skip_mark = std::uint64_t{1} << 63;

constexpr std::uint64_t ring_record_bytes(std::uint64_t length) noexcept {
  return ring_header_bytes + ((length + 7) & ~std::uint64_t{7});
}

// Memory for a ring with its positions.
constexpr std::uint64_t ring_arena_bytes(std::uint64_t capacity) noexcept {
  return sizeof(ring_positions) + capacity;
}

class ring_writer {
 public:
  ring_writer(std::byte* arena, std::uint64_t capacity) noexcept
      : positions_{*reinterpret_cast<ring_positions*>(arena)},
        data_{arena + sizeof(ring_positions)},
        mask_{capacity - 1} {}

  // Where a message of this length may be written; null while there is no room.
  std::byte* claim(std::uint64_t length) noexcept {
    const std::uint64_t size = ring_record_bytes(length);
    const std::uint64_t rest = mask_ + 1 - (tail_ & mask_);
    const std::uint64_t needed = size <= rest ? size : rest + size;
    if (tail_ + needed > limit_) [[unlikely]] {
      // Acquire: pairs with ring_reader::give_back; what it read is read.
      limit_ = positions_.head.load(std::memory_order_acquire) + mask_ + 1;
      if (tail_ + needed > limit_) {
        return nullptr;
      }
    }
    if (size > rest) [[unlikely]] {
      put_word(tail_ & mask_, ring_skip_mark | rest);
      tail_ += rest;
    }
    put_word(tail_ & mask_, length);
    size_ = size;
    return data_ + (tail_ & mask_) + ring_header_bytes;
  }

  // Makes the claimed message visible.
  void publish() noexcept {
    tail_ += size_;
    // Release: pairs with ring_reader::look.
    positions_.tail.store(tail_, std::memory_order_release);
  }

 private:
  void put_word(std::uint64_t offset, std::uint64_t word) noexcept {
    std::memcpy(data_ + offset, &word, sizeof word);
  }

  ring_positions& positions_;
  std::byte* const data_;
  const std::uint64_t mask_;
  std::uint64_t tail_ = 0;
  std::uint64_t limit_ = 0;  // nothing may be written beyond
  std::uint64_t size_ = 0;   // of the claimed record
};

class ring_reader {
 public:
  ring_reader(std::byte* arena, std::uint64_t capacity) noexcept
      : positions_{*reinterpret_cast<ring_positions*>(arena)},
        data_{arena + sizeof(ring_positions)},
        mask_{capacity - 1} {}

  // Bytes that wait to be read.
  std::uint64_t look() noexcept {
    // Acquire: pairs with ring_writer::publish; the records are there before they are visible.
    tail_ = positions_.tail.load(std::memory_order_acquire);
    return tail_ - head_;
  }

  // Hands over what the last look() found; returns how many messages.
  template <class Handler>
  std::uint64_t drain(Handler&& handler) noexcept {
    std::uint64_t messages = 0;
    while (head_ != tail_) {
      const std::byte* const at = data_ + (head_ & mask_);
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      if ((word & ring_skip_mark) != 0) [[unlikely]] {
        head_ += word & ~ring_skip_mark;
        continue;
      }
      handler(at + ring_header_bytes, word);
      head_ += ring_record_bytes(word);
      ++messages;
      // An eighth at a time: often enough that the sender does not wait, rarely enough that the
      // line with `head` stays its own.
      if (head_ - given_back_ > mask_ / 8) {
        give_back();
      }
    }
    return messages;
  }

  // Lets the sender overwrite what was handed over.
  void give_back() noexcept {
    if (given_back_ != head_) {
      given_back_ = head_;
      positions_.head.store(head_, std::memory_order_release);
    }
  }

 private:
  ring_positions& positions_;
  const std::byte* const data_;
  const std::uint64_t mask_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t given_back_ = 0;
};

// The capacity of a run's rings: as the lanes have it, 1 MiB by default, but enough for the longest
// message.
std::uint64_t ring_capacity(const workload& work) noexcept;

}  // namespace atbus::bench
