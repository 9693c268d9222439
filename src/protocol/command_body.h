// What is in a command and in its reply: a number, and words.
//
//   0                        8
//   | number, little endian  |  msgpack array of strings: the command's name and arguments, or the reply
//
// Pure. A stranger may have made the bytes: nothing is reserved for what they announce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atbus/core/bytes.hpp"
#include "protocol/control.h"

namespace atbus::detail {

inline constexpr std::size_t command_words_max = 1024;  // the name too

struct command_body {
  std::uint64_t number = 0;  // of the command, among those of the life that sent it
  std::vector<std::string> words;
};

// Replaces what is in `payload`. At most command_words_max words.
void encode(std::uint64_t number, const std::vector<std::string>& words, byte_buffer& payload);
// False: it is not as above. `body` is only good otherwise.
[[nodiscard]] bool decode(bytes_view payload, command_body& body);

}  // namespace atbus::detail
