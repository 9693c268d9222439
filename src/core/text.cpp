#include "core/text.h"

#include <array>
#include <charconv>

namespace atbus::detail {
namespace {

struct unit {
  char suffix;
  unsigned shift;
};
constexpr std::array<unit, 3> units{{{'G', 30}, {'M', 20}, {'K', 10}}};  // largest first

std::string hex_byte(char character) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(character);
  return {digits[value >> 4U], digits[value & 15U]};
}

error not_a_number(std::string_view text, std::string_view why) {
  return {errc::invalid_argument, in_quotes(text).append(" ").append(why)};
}

}  // namespace

std::string shown(char character) {
  if (is_printable(character))
    return {'\'', character, '\''};
  return "0x" + hex_byte(character);
}

std::string in_quotes(std::string_view text, std::size_t most) {
  std::string out = "'";
  for (const char c : text.substr(0, most)) {
    if (is_printable(c)) {
      out += c;
    } else {
      out += "\\x" + hex_byte(c);
    }
  }
  return out += text.size() > most ? "...'" : "'";
}

std::string bad_character(std::string_view text, std::size_t index, std::string_view allowed) {
  std::string out = in_quotes(text) + ": character " + std::to_string(index + 1) + ", " +
                    shown(text[index]) + ", is not allowed (";
  if (text[index] == '%')
    out += "percent-encoding is not used; ";
  return out.append(allowed).append(")");
}

result<std::uint64_t> parse_number(std::string_view text, std::uint64_t max) {
  if (text.empty())
    return not_a_number(text, "is empty where a number is expected");
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = text.substr(hex ? 2 : 0);
  if (digits.empty())
    return not_a_number(text, "has no digits after 0x");

  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value, hex ? 16 : 10);
  if (stop != end) {
    const auto index = static_cast<std::size_t>(stop - text.data());
    return error{errc::invalid_argument,
                 bad_character(text, index, hex ? "0-9 a-f A-F after 0x" : "digits, or 0x first")};
  }
  if (!hex && digits.size() > 1 && digits.front() == '0') {
    return not_a_number(text, "starts with 0, which could mean octal: leave the 0 out");
  }
  if (problem != std::errc{} || value > max) {
    return not_a_number(text, "is larger than " + std::to_string(max));
  }
  return value;
}

result<std::uint64_t> parse_size(std::string_view text) {
  for (const auto& [suffix, shift] : units) {
    if (!text.ends_with(suffix))
      continue;
    auto count = parse_number(text.substr(0, text.size() - 1));
    if (!count)
      return count;
    if (*count > std::numeric_limits<std::uint64_t>::max() >> shift) {
      return not_a_number(text, "is larger than 64 bits can hold");
    }
    return *count << shift;
  }
  if (!text.empty() && is_letter(text.back()) && is_digit(text.front()) &&
      !text.starts_with("0x")) {
    return not_a_number(text,
                        "has an unknown unit: K, M and G stand for 2^10, 2^20 and 2^30 bytes");
  }
  return parse_number(text);
}

std::string format_size(std::uint64_t bytes) {
  for (const auto& [suffix, shift] : units) {
    const bool whole = bytes != 0 && bytes >> shift << shift == bytes;
    if (whole)
      return std::to_string(bytes >> shift) + suffix;
  }
  return std::to_string(bytes);
}

result<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "1")
    return true;
  if (text == "false" || text == "0")
    return false;
  return error{errc::invalid_argument, in_quotes(text) + " is neither true (1) nor false (0)"};
}

std::string_view take_part(std::string_view& rest, char separator) noexcept {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : rest.size());
  return part;
}

}  // namespace atbus::detail
