// The random numbers that tell the inboxes of links apart: the last word of their subjects.
#pragma once

#include <sys/random.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace atbus::detail {

// Smaller numbers are no tokens: they are free for other uses as tags of epoll.
inline constexpr std::uint64_t smallest_token = 2;

inline std::uint64_t random_token() noexcept {
  std::uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number || number < smallest_token) {
  }
  return number;
}

// 16 digits.
inline std::string to_text(std::uint64_t token) {
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), token, 16).ptr;
  const std::string text{digits.data(), end};
  return std::string(16 - text.size(), '0') + text;
}

// Of a subject of at least 16 characters.
inline std::optional<std::uint64_t> token_of(std::string_view subject) noexcept {
  std::uint64_t token = 0;
  const std::string_view digits = subject.substr(subject.size() - 16);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), token, 16);
  return read.ec == std::errc{} && read.ptr == digits.data() + digits.size() ? std::optional{token}
                                                                             : std::nullopt;
}

}  // namespace atbus::detail
