// What is in a command and in its reply: a number, a deadline, and words.
//
//   0                        8                          16
//   | number, little endian  |  deadline, little endian  |  msgpack array of strings
//
// The strings are the command's name and arguments, or the reply. The deadline is the time of the sender's
// monotonic clock in nanoseconds when nobody waits for the reply any more; 0 in replies. It means something
// on the sender's host only: to the next incarnation of a receiver, which finds the command in shared memory.
//
// Pure. A stranger may have made the bytes: nothing is reserved for what they announce.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atbus/bytes.hpp"
#include "protocol/control.h"

namespace atbus::detail {

inline constexpr std::size_t command_words_max = 1024;  // the name too

struct command_body {
  std::uint64_t number = 0;  // of the command, among those of the incarnation that sent it
  std::chrono::nanoseconds deadline{0};
  std::vector<std::string> words;
};

// Replaces what is in `payload`. At most command_words_max words.
void encode(std::uint64_t number, const std::vector<std::string>& words, byte_buffer& payload,
            std::chrono::nanoseconds deadline = {});
// False: it is not as above. `body` is only good otherwise.
[[nodiscard]] bool decode(bytes_view payload, command_body& body);

}  // namespace atbus::detail
