// The head of a message that passes through other nodes: 40 bytes in front of what it carries.
//
//   0                  8              16         24         32         40
//   | head of the link | destination | source   | circuit  | number   |  a batch of the circuit
//
// The first 8 bytes are written anew for each link, the rest by the origin alone. In place of the
// user's type they have the hops left, the step, and a reason or how many messages the batch has.
// A batch is unchecked frames (channel/frame.hpp), one behind the other, with a message each.
//
// Pure. Nothing here allocates. doc/design/routing.md has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/frame.hpp"
#include "atbus/detail/little_endian.hpp"
#include "atbus/status.hpp"
#include "atbus/trace_context.hpp"
#include "protocol/message_head.h"

namespace atbus::detail {

inline constexpr std::uint8_t hops_max = 16;

// The meaning of a routed message for its circuit.
enum class circuit_step : std::uint8_t {
  carry,    // here is batch `number`
  expects,  // `number` is the batch accepted next: all before it have arrived
  misses,   // as expects, and later batches have arrived
  failed,   // a relay dropped batch `number` because of `reason`; sent in the destination's name
  ended,    // there is no such circuit
  reached,  // a broadcast has arrived; its number is in `circuit`
  traced,   // a message with the trace context that follows is on its way, for logs; circuit 0
};

struct routed_head {
  std::uint8_t flags = 0;  // routed_flags; flag_acknowledge is of this link
  std::uint8_t hops_left = hops_max;
  circuit_step step = circuit_step::carry;
  bool asks = false;       // asks the other end for its position at once
  errc reason = errc::ok;  // of failed
  std::uint16_t messages =
      0;  // that end in the batch, of carry. 0: it is a fragment, not the last one
  bus_id destination;
  bus_id source;
  std::uint64_t circuit = 0;  // random, chosen by the node that opens it
  std::uint64_t number = 0;   // in its direction of the circuit, from 1

  friend bool operator==(const routed_head&, const routed_head&) = default;
};
inline constexpr std::size_t routed_head_size = 40;
inline constexpr std::uint32_t asking_bit = 0x80;  // of the step
// The longest batch: one control message. Every node takes that much, whatever its message limit is.
inline constexpr std::size_t batch_max = frame_size(control_size_max);
// A frame that is longer travels in fragments: some of this size, and a last one that is longer than
// batch_max - fragment_size.
inline constexpr std::size_t fragment_size = std::size_t{12} * 1024;
static_assert(fragment_size % frame_alignment == 0 && fragment_size < batch_max);
// Of a routed message that carries one message of that length.
[[nodiscard]] constexpr std::size_t routed_size(std::size_t length) noexcept {
  return routed_head_size + frame_size(length);
}

// The longest payload of a message for which so many bytes are enough, also routed.
[[nodiscard]] constexpr std::uint64_t payload_in_routed(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t heads = routed_head_size + frame_header_size + message_head_size;
  return bytes < heads ? 0 : (bytes - routed_head_size) / 8 * 8 + routed_head_size - heads;
}
static_assert(payload_in_routed(routed_size(message_head_size + 1000)) == 1000);

// The part of each link's own: its first 8 bytes.
[[nodiscard]] constexpr message_head link_part(const routed_head& head) noexcept {
  const auto step = static_cast<std::uint32_t>(head.step) | (head.asks ? asking_bit : 0);
  const auto more =
      head.step == circuit_step::carry ? head.messages : static_cast<std::uint32_t>(head.reason);
  return {message_kind::routed, head.flags, 0, head.hops_left | step << 8U | more << 16U};
}

// Writes the 40 bytes at `to`.
inline void encode(const routed_head& head, std::byte* to) noexcept {
  encode(link_part(head), to);
  store_little_endian(to + 8, head.destination.value());
  store_little_endian(to + 16, head.source.value());
  store_little_endian(to + 24, head.circuit);
  store_little_endian(to + 32, head.number);
}

// Reads the head of a whole message of kind `routed`. False if it is malformed.
[[nodiscard]] inline bool decode(bytes_view message, routed_head& head) noexcept {
  message_head outer;
  if (message.size() < routed_head_size || decode(message, outer) != head_fault::none ||
      outer.kind != message_kind::routed)
    return false;
  head.flags = outer.flags;
  head.hops_left = static_cast<std::uint8_t>(outer.type);
  const auto step = static_cast<std::uint8_t>(outer.type >> 8U & ~asking_bit);
  head.asks = (outer.type >> 8U & asking_bit) != 0;
  const auto more = static_cast<std::uint16_t>(outer.type >> 16U);
  head.step = static_cast<circuit_step>(step);
  const bool carries = head.step == circuit_step::carry;
  head.messages = carries ? more : std::uint16_t{0};
  head.reason = carries ? errc::ok : static_cast<errc>(more);
  head.destination = load_little_endian<std::uint64_t>(message.data() + 8);
  head.source = load_little_endian<std::uint64_t>(message.data() + 16);
  head.circuit = load_little_endian<std::uint64_t>(message.data() + 24);
  head.number = load_little_endian<std::uint64_t>(message.data() + 32);
  if (head.hops_left > hops_max || head.destination == bus_id{} || head.source == bus_id{} ||
      head.number == 0)
    return false;
  if (carries && more == 0)
    return message.size() == routed_head_size + fragment_size;
  if (carries)
    return message.size() >= routed_size(message_head_size) &&
           message.size() <= routed_head_size + batch_max;
  const std::size_t more_bytes = head.step == circuit_step::traced ? trace_context::size : 0;
  return message.size() == routed_head_size + more_bytes && more < errc_count &&
         step <= static_cast<std::uint8_t>(circuit_step::traced) &&
         (more != 0) == (head.step == circuit_step::failed);
}

// What a message that was read carries.
[[nodiscard]] constexpr bytes_view carried_by(bytes_view message) noexcept {
  return message.subspan(routed_head_size);
}

}  // namespace atbus::detail
