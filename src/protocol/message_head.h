// The head of a message between the two ends of a direct link: 8 bytes in front of the payload.
//
//   0        1        2        4                 8
//   | kind   | flags  |   0    | user's type     |  payload
//
// Pure. Nothing here allocates. doc/design/protocol.md has the bytes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"

namespace atbus::detail {

// 0 is a user's message; all others are between the two nodes.
enum class message_kind : std::uint8_t {
  data,
  hello,
  welcome,
  proof,
  accept,
  refuse,
  acknowledge,
  ping,
  pong,
  flow,
  bye,
  addresses,
  routed,     // passes through other nodes: routed_head.h
  broadcast,  // to all nodes of a range: broadcast_head.h
  // Ignored by nodes that do not know them.
  where = 0x80,
  found,
  cancel,
  in_hand,
  turned_away,
  interest,
};
inline constexpr std::size_t message_kind_count =  // of those below 0x80
    static_cast<std::size_t>(message_kind::broadcast) + 1;

// The name of the enumerator; only for known kinds.
[[nodiscard]] constexpr std::string_view name(message_kind kind) noexcept {
  constexpr std::array<std::string_view, message_kind_count> names{
      "data", "hello", "welcome", "proof", "accept",    "refuse", "acknowledge",
      "ping", "pong",  "flow",    "bye",   "addresses", "routed", "broadcast"};
  if (kind == message_kind::where)
    return "where";
  if (kind == message_kind::found)
    return "found";
  if (kind == message_kind::cancel)
    return "cancel";
  if (kind == message_kind::in_hand)
    return "in hand";
  if (kind == message_kind::turned_away)
    return "turned away";
  if (kind == message_kind::interest)
    return "interest";
  return names[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr bool is_known(message_kind kind) noexcept {
  return static_cast<std::size_t>(kind) < message_kind_count || kind == message_kind::where ||
         kind == message_kind::found || kind == message_kind::cancel ||
         kind == message_kind::in_hand || kind == message_kind::turned_away ||
         kind == message_kind::interest;
}

// Unknown kinds with this bit are ignored; any other unknown kind violates the protocol.
inline constexpr std::uint8_t ignorable_kind = 0x80;
[[nodiscard]] constexpr bool is_ignorable(message_kind kind) noexcept {
  return (static_cast<std::uint8_t>(kind) & ignorable_kind) != 0 && !is_known(kind);
}

// Bytes of a control message at most, with its head.
inline constexpr std::size_t control_size_max = std::size_t{16} * 1024;

// Of data only; routed messages and broadcasts have those of routed_flags.
inline constexpr std::uint8_t flag_redelivered = 1;
inline constexpr std::uint8_t flag_require_delivery = 2;
inline constexpr std::uint8_t flag_acknowledge = 4;  // acknowledge at once
inline constexpr std::uint8_t flag_command = 8;      // the payload is a command (command_body.h)
inline constexpr std::uint8_t flag_reply = 16;       // it is the reply to one; the type is a result
inline constexpr std::uint8_t command_flags = flag_command | flag_reply;
// For routed messages and broadcasts: one link on the path had no tokens, and the kernel could not
// authenticate its other end.
inline constexpr std::uint8_t flag_unproven = 32;
// The same bit, of data: the payload is a copy of what was published to a topic (topic_head.h).
inline constexpr std::uint8_t flag_topic = 32;
// The payload is a request (request_body.h); with flag_reply, the response to one, whose type is an errc.
inline constexpr std::uint8_t flag_request = 64;
// The trace context (trace_context.hpp) is behind the payload of a user's message or of a request.
inline constexpr std::uint8_t flag_traced = 128;
// Without any of these a message is the user's, and goes to on_message.
inline constexpr std::uint8_t exchange_flags = command_flags | flag_request | flag_topic;
inline constexpr std::uint8_t routed_flags = flag_acknowledge | flag_unproven;
// What the payload is; the other flags change on its way.
inline constexpr std::uint8_t payload_flags = exchange_flags | flag_traced;
inline constexpr std::uint8_t known_flags =
    flag_redelivered | flag_require_delivery | flag_acknowledge | payload_flags;

struct message_head {
  message_kind kind = message_kind::data;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint32_t type = 0;  // the user's; 0 in control messages

  friend bool operator==(const message_head&, const message_head&) = default;
};
inline constexpr std::size_t message_head_size = 8;
static_assert(sizeof(message_head) == message_head_size && offsetof(message_head, kind) == 0 &&
              offsetof(message_head, flags) == 1 && offsetof(message_head, reserved) == 2 &&
              offsetof(message_head, type) == 4);

enum class head_fault : std::uint8_t {
  none,
  truncated,        // shorter than a head
  unknown_kind,     // one that may not be ignored
  unknown_flags,    // or any flag at all on a control message
  reserved_bits,    // not 0
  type_in_control,  // a control message with a user's type
};

// One sentence for logs and error texts.
[[nodiscard]] constexpr std::string_view explain(head_fault fault) noexcept {
  switch (fault) {
    case head_fault::none:
      return "nothing is wrong with the message head";
    case head_fault::truncated:
      return "a message is shorter than its 8-byte head";
    case head_fault::unknown_kind:
      return "a message is of a kind that this version does not know";
    case head_fault::unknown_flags:
      return "a message has flags that its kind does not have";
    case head_fault::reserved_bits:
      return "a reserved field of a message head is not 0";
    case head_fault::type_in_control:
      return "a control message has a type of the user's";
  }
  return "a message head is wrong";
}

// The 8 bytes in the order of the wire, which is little endian.
using message_head_bytes = std::array<std::byte, message_head_size>;

[[nodiscard]] constexpr message_head_bytes head_bytes(const message_head& head) noexcept {
  auto bytes = std::bit_cast<message_head_bytes>(head);
  if constexpr (std::endian::native == std::endian::big) {
    std::reverse(bytes.begin() + offsetof(message_head, reserved),
                 bytes.begin() + offsetof(message_head, type));
    std::reverse(bytes.begin() + offsetof(message_head, type), bytes.end());
  }
  return bytes;
}
static_assert(head_bytes({message_kind::hello, 2, 0, 0x0a0b0c0d}) ==
              message_head_bytes{std::byte{1}, std::byte{2}, std::byte{0}, std::byte{0},
                                 std::byte{0x0d}, std::byte{0x0c}, std::byte{0x0b},
                                 std::byte{0x0a}});

// Writes the 8 bytes at `to`.
constexpr void encode(const message_head& head, std::byte* to) noexcept {
  const message_head_bytes bytes = head_bytes(head);
  std::copy(bytes.begin(), bytes.end(), to);
}

// Whether a message is one of the user's without flags, and its type.
[[nodiscard]] inline bool is_plain_data(const std::byte* head, std::uint32_t& type) noexcept {
  const auto word = load_little_endian<std::uint64_t>(head);
  type = static_cast<std::uint32_t>(word >> 32);
  return static_cast<std::uint32_t>(word) == 0;  // kind, flags and what is reserved
}

// Reads the head of a whole message. Of a message of an ignorable kind nothing else is looked at.
[[nodiscard]] constexpr head_fault decode(bytes_view message, message_head& head) noexcept {
  if (message.size() < message_head_size)
    return head_fault::truncated;
  message_head_bytes bytes{};
  std::copy_n(message.begin(), message_head_size, bytes.begin());
  // Swapping the byte order twice restores it.
  head = std::bit_cast<message_head>(head_bytes(std::bit_cast<message_head>(bytes)));
  if (is_ignorable(head.kind))
    return head_fault::none;
  if (!is_known(head.kind))
    return head_fault::unknown_kind;
  const bool data = head.kind == message_kind::data;
  const bool routed = head.kind == message_kind::routed || head.kind == message_kind::broadcast;
  if ((head.flags & ~(data ? known_flags : routed ? routed_flags : 0)) != 0)
    return head_fault::unknown_flags;
  if (head.reserved != 0)
    return head_fault::reserved_bits;
  return data || routed || head.type == 0 ? head_fault::none : head_fault::type_in_control;
}

// The payload of a message that has a head.
[[nodiscard]] constexpr bytes_view payload_of(bytes_view message) noexcept {
  return message.subspan(message_head_size);
}

}  // namespace atbus::detail
