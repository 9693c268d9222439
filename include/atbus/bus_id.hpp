/// @class atbus::bus_id
/// The 64-bit number that names a node, and its text forms.
///
/// Decimal (305397760), hexadecimal (0x12340000) or dotted (1.2.3.4); for dotted ids a layout says
/// how many bits each part has, highest first. 0 names no node; clients use it.
///
/// Ownership and threads: a plain value, ordered by its number.
#pragma once

#include <array>
#include <cassert>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// The number of bits of each part of a dotted bus id; they add up to 64. Default: 8.8.16.32.
class bus_id_layout {
 public:
  constexpr bus_id_layout() noexcept = default;

  /// Reads text such as "8.8.16.32": each part 1 to 64, the sum 64. Errors: invalid_argument (text:
  /// the part at fault).
  ATBUS_API static result<bus_id_layout> parse(std::string_view text);
  /// The text that parse() reads.
  ATBUS_API std::string to_string() const;

  /// How many parts a dotted id has: 1 to 64.
  constexpr std::size_t part_count() const noexcept { return part_count_; }

  /// Bits of a part, counted from 0 at the left.
  constexpr unsigned bits(std::size_t part) const noexcept {
    assert(part < part_count_);
    return bits_[part];
  }

  friend constexpr bool operator==(const bus_id_layout&, const bus_id_layout&) noexcept = default;

 private:
  static constexpr std::size_t part_count_max = 64;  // 64 parts of one bit
  std::array<std::uint8_t, part_count_max> bits_{8, 8, 16, 32};
  std::uint8_t part_count_ = 4;
};

/// Types that convert to a bus id implicitly: all integers except characters and bool.
template <class T>
concept bus_id_integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                         !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                         !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

class bus_id {
 public:
  constexpr bus_id() noexcept = default;

  /// Implicit, so that node{2} reads well. A negative number is an error of the program (asserted).
  template <bus_id_integer Integer>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr bus_id(Integer value) noexcept : value_{static_cast<std::uint64_t>(value)} {
    if constexpr (std::signed_integral<Integer>)
      assert(value >= 0);
  }

  /// Reads the whole text in any of the three forms. Errors: invalid_argument (text: the part at
  /// fault).
  ATBUS_API static result<bus_id> parse(std::string_view text, const bus_id_layout& layout = {});

  /// The number itself; 0 for no node.
  constexpr std::uint64_t value() const noexcept { return value_; }

  /// The id in decimal: "305397760".
  ATBUS_API std::string to_string() const;
  /// The id in hexadecimal, in lower case and with as many digits as needed: "0x12340000".
  ATBUS_API std::string to_hex() const;
  /// The id in parts, as the layout divides it: "0.0.0.305397760".
  ATBUS_API std::string to_dotted(const bus_id_layout& layout = {}) const;

  friend constexpr auto operator<=>(const bus_id&, const bus_id&) noexcept = default;

 private:
  std::uint64_t value_ = 0;
};

}  // namespace atbus

/// Makes bus ids keys of unordered containers.
template <>
struct std::hash<atbus::bus_id> {
  /// The hash of the number.
  std::size_t operator()(atbus::bus_id id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value());
  }
};
