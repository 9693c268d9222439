// Routed messages made by hand: a batch of messages, or a word about a circuit.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "protocol/control.h"
#include "protocol/routed_head.h"

namespace atbus::detail {

// With the number of these messages in its head.
inline byte_buffer routed_message(routed_head head, std::initializer_list<bytes_view> batch) {
  head.messages = static_cast<std::uint16_t>(batch.size());
  byte_buffer made(routed_head_size);
  encode(head, made.data());
  for (const bytes_view message : batch) {
    const std::size_t at = made.size();
    made.resize(at + frame_size(message.size()));
    std::ranges::copy(message, begin_frame(made.data() + at, frame_kind::data, message.size()));
  }
  return made;
}

// The first message of a batch that a routed message carries.
inline byte_buffer first_message_of(bytes_view routed) {
  const std::byte* const frame = routed.data() + routed_head_size;
  const std::byte* const message = frame + frame_header_size;
  return {message, message + frame_length(load_little_endian<std::uint32_t>(frame))};
}

}  // namespace atbus::detail
