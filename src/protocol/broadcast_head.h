// The head of a message to all nodes of a range: 40 bytes in front of the payload.
//
//   0                  8         16         24         32       33     34        35      40
//   | head of the link | prefix  | source   | number   | length | hops | answers |   0   |  payload
//
// The first 8 bytes (with the user's type) and the hops left are rewritten for each link. `answers` is 1 if
// each reached node reports to the source.
//
// Pure. Nothing here allocates. doc/design/routing.md has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"
#include "atbus/id_range.hpp"
#include "protocol/message_head.h"
#include "protocol/routed_head.h"

namespace atbus::detail {

struct broadcast_head {
  std::uint8_t flags = 0;  // routed_flags; flag_acknowledge is of this link
  std::uint32_t type = 0;  // the user's
  id_range to;
  bus_id source;
  std::uint64_t number = 0;  // drawn by the source
  std::uint8_t hops_left = hops_max;
  bool answers = false;

  friend bool operator==(const broadcast_head&, const broadcast_head&) = default;
};
inline constexpr std::size_t broadcast_head_size = 40;

// Writes the 40 bytes at `to`.
inline void encode(const broadcast_head& head, std::byte* to) noexcept {
  encode(message_head{message_kind::broadcast, head.flags, 0, head.type}, to);
  store_little_endian(to + 8, head.to.prefix().value());
  store_little_endian(to + 16, head.source.value());
  store_little_endian(to + 24, head.number);
  std::memset(to + 32, 0, 8);
  to[32] = static_cast<std::byte>(head.to.length());
  to[33] = static_cast<std::byte>(head.hops_left);
  to[34] = static_cast<std::byte>(head.answers);
}

// Reads the head of a whole message of kind `broadcast`. False if it is malformed.
[[nodiscard]] inline bool decode(bytes_view message, broadcast_head& head) noexcept {
  message_head outer;
  if (message.size() < broadcast_head_size || decode(message, outer) != head_fault::none ||
      outer.kind != message_kind::broadcast)
    return false;
  const auto range = id_range::make(load_little_endian<std::uint64_t>(message.data() + 8),
                                    static_cast<unsigned>(message[32]));
  if (!range)
    return false;
  head.flags = outer.flags;
  head.type = outer.type;
  head.to = *range;
  head.source = load_little_endian<std::uint64_t>(message.data() + 16);
  head.number = load_little_endian<std::uint64_t>(message.data() + 24);
  head.hops_left = static_cast<std::uint8_t>(message[33]);
  head.answers = message[34] == std::byte{1};
  return head.source != bus_id{} && head.number != 0 && head.hops_left <= hops_max &&
         message[34] <= std::byte{1} && message[35] == std::byte{0} &&
         load_little_endian<std::uint32_t>(message.data() + 36) == 0;
}

}  // namespace atbus::detail
