// How items lie in the arena. Blocks are referred to by their number, never by an address, so that
// the arena can be mapped anywhere.
//
//     extent       | next (4) | state (4) | payload ...                              |
//     its payload  | check (4) | value bytes (4) | expiry, key bytes (8) | key | value ... |
//
// An item is a ring of extents: `next` of the last leads to the head again, so that every extent
// leads to its item. The item_head and the key are in the head; the value continues in the others.
#pragma once

#include <atbus/bytes.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cache {

using block = std::uint32_t;  // a number of 16 bytes; 0 is the arena's header and means "none"
inline constexpr std::size_t block_bytes = 16;

struct extent {
  static constexpr std::uint32_t free_flag = 1;
  static constexpr std::uint32_t after_free_flag = 2;  // the run before it is free
  static constexpr std::uint32_t head_flag = 4;
  static constexpr std::uint32_t pinned_flag = 8;  // of a head: index, or not yet committed
  static constexpr unsigned flag_bits = 4;
  static constexpr std::uint32_t length_max = (1U << (32 - flag_bits)) - 1;

  block next;
  std::uint32_t state;  // blocks << flag_bits | flags

  [[nodiscard]] std::uint32_t length() const noexcept { return state >> flag_bits; }
  [[nodiscard]] bool has(std::uint32_t flag) const noexcept { return (state & flag) != 0; }
  [[nodiscard]] std::size_t payload_bytes() const noexcept {
    return length() * block_bytes - sizeof(extent);
  }
};

struct item_head {
  std::uint32_t check;  // of all that follows, if the arena is kept
  std::uint32_t value_bytes;
  std::uint64_t expiry_and_key;  // milliseconds << 16 | bytes of the key; all ones: no expiry

  static constexpr std::uint64_t no_expiry = (std::uint64_t{1} << 48) - 1;
  [[nodiscard]] std::uint64_t expiry_ms() const noexcept { return expiry_and_key >> 16; }
  [[nodiscard]] std::size_t key_bytes() const noexcept { return expiry_and_key & 0xffff; }
  [[nodiscard]] std::size_t payload_bytes() const noexcept {
    return sizeof(item_head) + key_bytes() + value_bytes;
  }
};
static_assert(sizeof(extent) == 8 && std::is_trivially_copyable_v<extent>);
static_assert(sizeof(item_head) == 16 && std::is_trivially_copyable_v<item_head>);

// The arena's memory as blocks.
struct block_memory {
  std::byte* base = nullptr;

  [[nodiscard]] std::byte* at(block number) const noexcept {
    return base + std::size_t{number} * block_bytes;
  }
  [[nodiscard]] extent& extent_at(block number) const noexcept {
    return *reinterpret_cast<extent*>(at(number));
  }
  [[nodiscard]] std::byte* payload_of(block number) const noexcept {
    return at(number) + sizeof(extent);
  }
  [[nodiscard]] item_head& item_at(block head) const noexcept {
    return *reinterpret_cast<item_head*>(payload_of(head));
  }
  [[nodiscard]] atbus::bytes_view key_of(block head) const noexcept {
    return {payload_of(head) + sizeof(item_head), item_at(head).key_bytes()};
  }
  // The head of the item that an extent belongs to.
  [[nodiscard]] block head_of(block part) const noexcept {
    while (!extent_at(part).has(extent::head_flag))
      part = extent_at(part).next;
    return part;
  }
};

}  // namespace cache
