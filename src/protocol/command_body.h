// The payload of a command and of its reply: a number, a deadline, and words.
//
//   0                        8                          16
//   | number, little endian  |  deadline, little endian  |  msgpack array of strings
//
// The strings are the command's name and arguments, or the reply. The deadline is the time, in nanoseconds of
// the sender's monotonic clock, when the sender stops waiting for the reply; 0 in replies. It is valid only
// on the sender's host: the next incarnation of a receiver checks it when it finds the command in shared
// memory.
//
// Pure. An unproven peer may have made the bytes: an announced length reserves no memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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
// The number alone, without memory; 0: the payload is malformed.
[[nodiscard]] std::uint64_t command_number(bytes_view payload) noexcept;
// The name alone, in place, without memory; empty: the payload is malformed.
[[nodiscard]] std::string_view command_name(bytes_view payload) noexcept;
// False if the payload is malformed; then `body` is not valid.
[[nodiscard]] bool decode(bytes_view payload, command_body& body);

}  // namespace atbus::detail
