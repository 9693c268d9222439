// Parsing and printing small pieces of text, for bus ids, ranges and addresses.
//
// All functions are pure. The parsers are strict: no spaces, signs, leading zeros or trailing text. Their
// errors quote the text, made safe for logs; the caller adds where it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

// The most of a text that in_quotes() shows; it cuts off the rest with "...".
inline constexpr std::size_t quoted_bytes_max = 120;

// The character in quotes, or its value as 0x.. if it can't be printed.
std::string shown(char character);

// The text in quotes; bytes other than printable ASCII become \x.., and long text is cut off.
ATBUS_API std::string in_quotes(std::string_view text, std::size_t most = quoted_bytes_max);

// "'a/b': character 2, '/', is not allowed (<allowed>)", counted from 1.
std::string bad_character(std::string_view text, std::size_t index, std::string_view allowed);

// Decimal, or hexadecimal after 0x. Anything above `max` is an error.
result<std::uint64_t> parse_number(std::string_view text,
                                   std::uint64_t max = std::numeric_limits<std::uint64_t>::max());

// Bytes: a number, times 2^10, 2^20 or 2^30 after K, M or G.
result<std::uint64_t> parse_size(std::string_view text);

// The shortest text that parse_size() reads as `bytes`: 1048576 is "1M".
std::string format_size(std::uint64_t bytes);

// true, false, 1 or 0.
result<bool> parse_flag(std::string_view text);

// Removes and returns the part of `rest` before the first `separator`, and removes the separator too. Takes
// all of `rest` if there is none.
std::string_view take_part(std::string_view& rest, char separator) noexcept;

// Independent of the locale, unlike <cctype>.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_printable(char c) noexcept {
  return c >= ' ' && c <= '~';
}

}  // namespace atbus::detail
