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

}  // namespace atbus::detail
