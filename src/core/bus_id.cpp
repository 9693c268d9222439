#include "atbus/bus_id.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/text.h"

namespace atbus {
namespace {

using detail::in_quotes;

constexpr unsigned id_bits = 64;
constexpr std::uint64_t all_bits = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t largest(unsigned bits) noexcept {
  return all_bits >> (id_bits - bits);
}

error at_fault(std::string_view what, std::string_view text, std::string_view problem) {
  std::string sentence{what};
  return {errc::invalid_argument,
          sentence.append(" ").append(in_quotes(text)).append(": ").append(problem)};
}

error part_at_fault(std::string_view what, std::string_view text, std::size_t part,
                    std::string_view problem) {
  return at_fault(what, text, "part " + std::to_string(part + 1) + ": " + std::string{problem});
}

std::size_t count_parts(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, '.')) + 1;
}

// The text holds a dot, so a matching layout has at least two parts, and no shift is by 64 bits.
result<bus_id> parse_dotted(std::string_view text, const bus_id_layout& layout) {
  if (const auto parts = count_parts(text); parts != layout.part_count()) {
    return at_fault("bus id", text,
                    std::to_string(parts) + " parts, but the layout " + layout.to_string() +
                        " has " + std::to_string(layout.part_count()));
  }
  std::uint64_t value = 0;
  std::string_view rest = text;
  for (std::size_t i = 0; i < layout.part_count(); ++i) {
    const auto part = detail::parse_number(detail::take_part(rest, '.'), largest(layout.bits(i)));
    if (!part)
      return part_at_fault("bus id", text, i, part.error().text());
    value = value << layout.bits(i) | *part;
  }
  return bus_id{value};
}

}  // namespace

result<bus_id_layout> bus_id_layout::parse(std::string_view text) {
  const auto parts = count_parts(text);
  if (parts > part_count_max)
    return at_fault("bus id layout", text, "more than 64 parts");

  bus_id_layout layout;
  layout.bits_ = {};
  layout.part_count_ = static_cast<std::uint8_t>(parts);
  std::uint64_t sum = 0;
  std::string_view rest = text;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto bits = detail::parse_number(detail::take_part(rest, '.'), id_bits);
    if (!bits)
      return part_at_fault("bus id layout", text, i, bits.error().text());
    if (*bits == 0)
      return part_at_fault("bus id layout", text, i, "0 bits hold nothing");
    layout.bits_[i] = static_cast<std::uint8_t>(*bits);
    sum += *bits;
  }
  if (sum != id_bits) {
    return at_fault("bus id layout", text,
                    "its parts add up to " + std::to_string(sum) + " bits, not 64");
  }
  return layout;
}

std::string bus_id_layout::to_string() const {
  std::string text = std::to_string(bits(0));
  for (std::size_t i = 1; i < part_count(); ++i)
    text += '.' + std::to_string(bits(i));
  return text;
}

result<bus_id> bus_id::parse(std::string_view text, const bus_id_layout& layout) {
  if (text.find('.') != text.npos)
    return parse_dotted(text, layout);
  const auto value = detail::parse_number(text);
  if (!value) {
    return error{errc::invalid_argument, "bus id " + value.error().text()};
  }
  return bus_id{*value};
}

std::string bus_id::to_string() const {
  return std::to_string(value_);
}

std::string bus_id::to_hex() const {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value_, 16).ptr;
  return "0x" + std::string{digits.data(), end};
}

std::string bus_id::to_dotted(const bus_id_layout& layout) const {
  std::string text;
  unsigned below = id_bits;
  for (std::size_t i = 0; i < layout.part_count(); ++i) {
    below -= layout.bits(i);
    if (i != 0)
      text += '.';
    text += std::to_string((value_ >> below) & largest(layout.bits(i)));
  }
  return text;
}

}  // namespace atbus
