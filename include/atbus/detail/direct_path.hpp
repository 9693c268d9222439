// The path of nearly all messages of a node: straight into the lane, or into a chunk of the stream's queue,
// of the peer that the node sent to last. It needs no check by the node's core. Inlined into user code;
// programs include atbus/node.hpp.
//
// The core opens the path after a message if the next message to that peer would go to the same place. It
// adds the messages sent here to its counts, and closes the path before anything that may change where
// messages go.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/bus_id.hpp"
#include "atbus/detail/frame_chunk.hpp"
#include "atbus/detail/little_endian.hpp"
#include "atbus/detail/sender_backend.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

// The head of a user's message on a direct link; src/protocol/message_head.h has the rest.
inline constexpr std::size_t data_head_size = 8;
[[nodiscard]] constexpr std::uint64_t data_head(std::uint32_t type) noexcept {
  return std::uint64_t{type} << 32;
}

// Prefetches, for writing, the cache lines of the next messages, behind the message that begins at `at`. A
// store that waits for its line blocks all later stores, even those that save registers on the stack. The
// address may be outside of any mapping: a prefetch never faults.
inline void prefetch_lines(const std::byte* at) noexcept {
  constexpr std::size_t ahead = 256;
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(at[ahead]));
  asm volatile("prefetchw %0" : : "m"(at[ahead + 64]));
#else
  __builtin_prefetch(at + ahead, 1);
  __builtin_prefetch(at + ahead + 64, 1);
#endif
}

// At most one of the two is set.
struct direct_place {
  sender_backend* lane = nullptr;
  frame_chunk* chunk = nullptr;
};

struct direct_path {
  direct_place place;  // none: the path is closed
  bus_id to;
  std::size_t longest = 0;  // bytes of the longest message
  std::uint64_t claims =
      0;  // all claims of the node, on any path: a new claim discards the one before
  // Sent since the core last looked.
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_open() const noexcept {
    return place.lane != nullptr || place.chunk != nullptr;
  }
  // Whether a claim in a stream's queue waits for its commit.
  [[nodiscard]] bool has_claim() const noexcept {
    return place.chunk != nullptr && place.chunk->frame != nullptr;
  }
  // Room for a message; null if the core has to send it.
  [[nodiscard]] std::byte* claim(bus_id whom, std::uint32_t type, std::size_t length) noexcept {
    if (whom != to || length > longest) [[unlikely]]
      return nullptr;
    std::byte* at = nullptr;
    if (place.chunk != nullptr) {
      if (frame_size(data_head_size + length) > place.chunk->room()) [[unlikely]]
        return nullptr;
      at = place.chunk->claim(data_head_size + length);
    } else if (place.lane != nullptr) [[likely]] {
      status why;
      at = place.lane->claim(data_head_size + length, why);
      if (at == nullptr) [[unlikely]]
        return nullptr;
      prefetch_lines(at);
    } else {
      return nullptr;
    }
    store_little_endian<std::uint64_t>(at, data_head(type));
    ++claims;
    return at + data_head_size;
  }
  // Whether that claim waits for its commit. A stream that ends lets go of it.
  [[nodiscard]] bool is_claimed(std::uint64_t claim) const noexcept {
    return claim == claims && (place.chunk == nullptr || place.chunk->frame != nullptr);
  }
  // Sends the first `length` of the `claimed` bytes, and counts what the link has taken.
  void commit(std::size_t claimed, std::size_t length) noexcept {
    if (place.chunk != nullptr) {
      if (!place.chunk->append(data_head_size + claimed, data_head_size + length)) [[unlikely]]
        return;
    } else {
      if (!place.lane->append(data_head_size + claimed, data_head_size + length)) [[unlikely]]
        return;
      place.lane->publish();
    }
    ++messages;
    bytes += length;
  }
};

}  // namespace atbus::detail
