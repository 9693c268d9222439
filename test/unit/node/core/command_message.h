// Commands and replies as they go over a link, for parties that are played by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/command_body.h"
#include "protocol/message_head.h"

namespace atbus::detail {

inline byte_buffer command_message(unsigned flags, std::uint32_t type, std::uint64_t number,
                                   const std::vector<std::string>& words) {
  byte_buffer payload;
  encode(number, words, payload);
  byte_buffer made(message_head_size);
  encode(message_head{message_kind::data, static_cast<std::uint8_t>(flags), 0, type}, made.data());
  made.insert(made.end(), payload.begin(), payload.end());
  return made;
}

// The numbers of the commands among these messages.
inline std::vector<std::uint64_t> commands_in(const std::vector<byte_buffer>& messages) {
  std::vector<std::uint64_t> numbers;
  for (const byte_buffer& one : messages) {
    message_head head;
    if (decode(one, head) == head_fault::none && head.kind == message_kind::data &&
        (head.flags & exchange_flags) == flag_command)
      numbers.push_back(command_number(payload_of(one)));
  }
  return numbers;
}

}  // namespace atbus::detail
