#include "discovery/base64.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace atbus::detail {
namespace {

constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> base64_values = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(no_digit);
  for (std::uint8_t i = 0; i != no_digit; ++i)
    values[static_cast<unsigned char>(base64_digits[i])] = i;
  return values;
}();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i != 3; ++i)
      word = word << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i != 4; ++i) {
      text += at + i > bytes.size() ? '=' : base64_digits[word >> 18U & 63U];
      word <<= 6U;
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t word = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::uint8_t value = base64_values[static_cast<unsigned char>(c)];
    if (value == no_digit)
      return std::nullopt;
    word = word << 6U | value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>(word >> bits & 0xFFU);
    }
  }
  return bytes;
}

}  // namespace atbus::detail
