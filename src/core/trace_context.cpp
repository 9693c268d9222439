#include "atbus/trace_context.hpp"

#include <algorithm>
#include <span>

#include "core/text.h"

namespace atbus {
namespace {

constexpr std::size_t text_length = 55;  // "00-", 32, "-", 16, "-", 2
constexpr std::string_view digits = "0123456789abcdef";

// False: a character is none of the digits, which are lower case only.
bool read_hex(std::string_view text, std::span<std::byte> to) noexcept {
  for (std::size_t i = 0; i != to.size(); ++i) {
    const auto high = digits.find(text[2 * i]);
    const auto low = digits.find(text[2 * i + 1]);
    if (high == digits.npos || low == digits.npos)
      return false;
    to[i] = static_cast<std::byte>(high << 4U | low);
  }
  return true;
}

void append_hex(std::string& to, std::span<const std::byte> bytes) {
  for (const std::byte one : bytes) {
    to += digits[std::to_integer<std::size_t>(one >> 4U)];
    to += digits[std::to_integer<std::size_t>(one & std::byte{15})];
  }
}

bool is_all_zero(std::span<const std::byte> bytes) noexcept {
  return std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
}

error refuse(std::string_view text, std::string_view why) {
  return {errc::invalid_argument,
          "traceparent " + detail::in_quotes(text) + ": " + std::string{why}};
}

}  // namespace

result<trace_context> trace_context::parse(std::string_view text) {
  const bool is_later = text.size() > text_length && text[text_length] == '-';
  if (text.size() != text_length && !is_later)
    return refuse(text, "it has to be 55 characters long");
  if (text[2] != '-' || text[35] != '-' || text[52] != '-')
    return refuse(text, "its parts have to be VERSION-TRACE-PARENT-FLAGS");
  trace_context read;
  std::array<std::byte, 1> version{};
  std::array<std::byte, 1> flags{};
  if (!read_hex(text.substr(0, 2), version) || !read_hex(text.substr(3, 32), read.trace_id) ||
      !read_hex(text.substr(36, 16), read.parent_id) || !read_hex(text.substr(53, 2), flags))
    return refuse(text, "its parts have to be of the digits 0 to 9 and a to f");
  if (version[0] == std::byte{255} || (version[0] == std::byte{0} && is_later))
    return refuse(text, "there is no such version");
  if (is_all_zero(read.trace_id) || is_all_zero(read.parent_id))
    return refuse(text, "an id is 0");
  read.flags = std::to_integer<std::uint8_t>(flags[0]);
  return read;
}

trace_context trace_context::read(const std::byte* from) noexcept {
  trace_context read;
  std::copy_n(from, read.trace_id.size(), read.trace_id.begin());
  std::copy_n(from + read.trace_id.size(), read.parent_id.size(), read.parent_id.begin());
  read.flags = std::to_integer<std::uint8_t>(from[size - 1]);
  return read;
}

void trace_context::write(std::byte* to) const noexcept {
  std::byte* const behind = std::copy(trace_id.begin(), trace_id.end(), to);
  *std::copy(parent_id.begin(), parent_id.end(), behind) = static_cast<std::byte>(flags);
}

std::string trace_context::to_string() const {
  std::string text{"00-"};
  append_hex(text, trace_id);
  text += '-';
  append_hex(text, parent_id);
  text += '-';
  append_hex(text, std::array{static_cast<std::byte>(flags)});
  return text;
}

}  // namespace atbus
