// Where nearly all messages of a node go: to the peer that it sent to last, into a lane or a chunk of a
// stream's queue, with nothing to ask before. Inlined into user code; programs include atbus/node.hpp.
//
// The node's core opens the way when a message has gone there and the next one would go the same way,
// adds what was sent to its counts, and closes it before anything that may change where messages go.
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

// What a node puts before a user's message on a direct link; src/protocol/message_head.h has the rest.
inline constexpr std::size_t data_head_size = 8;
[[nodiscard]] constexpr std::uint64_t data_head(std::uint32_t type) noexcept {
  return std::uint64_t{type} << 32;
}

// Sends for cache lines that are written soon: those behind a message that begins at `at`. A store
// that waits for its line holds up all stores behind it, also those of registers that a function
// saves; a line that was sent for in time does not. It does not matter if nothing is there.
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

// One of them, or none.
struct direct_place {
  sender_backend* lane = nullptr;
  frame_chunk* chunk = nullptr;
};

struct direct_path {
  direct_place place;  // none: it is closed
  bus_id to;
  std::size_t longest = 0;   // bytes of a message
  std::uint64_t claims = 0;  // of the node, on whatever way: each takes the one before away
  // Sent since the core looked last.
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_open() const noexcept {
    return place.lane != nullptr || place.chunk != nullptr;
  }
  // Whether what was claimed in a stream's queue waits for its commit.
  [[nodiscard]] bool has_claim() const noexcept {
    return place.chunk != nullptr && place.chunk->frame != nullptr;
  }
  // Room for a message; null: the core has to be asked.
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
  // Of the `claimed` bytes of the last claim, `length` are sent.
  void commit(std::size_t claimed, std::size_t length) noexcept {
    if (place.chunk != nullptr) {
      place.chunk->append(data_head_size + claimed, data_head_size + length);
    } else {
      place.lane->append(data_head_size + claimed, data_head_size + length);
      place.lane->publish();
    }
    ++messages;
    bytes += length;
  }
};

}  // namespace atbus::detail
