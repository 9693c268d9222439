/// @class atbus::id_range
/// A range of bus ids with the same highest bits, written like a network prefix: 0x12340000/48
/// holds the ids 0x12340000 to 0x1234ffff, 0/0 holds all, 7/64 only 7. Of two ranges, either one
/// contains the other or they are disjoint. Ownership and threads: a plain value.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <string>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class id_range {
 public:
  /// The range of all ids.
  constexpr id_range() noexcept = default;

  /// Only `id`.
  static constexpr id_range single(bus_id id) noexcept { return id_range{id, 64}; }

  /// `length` is the number of leading bits that all ids share, 0 to 64. The bits of `prefix` below
  /// them must be 0, so that every range has exactly one text form. Errors: invalid_argument.
  ATBUS_API static result<id_range> make(bus_id prefix, unsigned length);

  /// Reads "prefix/length", the prefix in any form of a bus id. Errors: invalid_argument (text: the
  /// part at fault).
  ATBUS_API static result<id_range> parse(std::string_view text, const bus_id_layout& layout = {});

  /// The form that parse() reads, with the prefix in hexadecimal.
  ATBUS_API std::string to_string() const;

  /// The bits that all ids share, with zeros below them.
  constexpr bus_id prefix() const noexcept { return prefix_; }
  /// The number of those bits: 0 to 64.
  constexpr unsigned length() const noexcept { return length_; }
  /// The lowest id.
  constexpr bus_id first() const noexcept { return prefix_; }
  /// The highest id.
  constexpr bus_id last() const noexcept { return prefix_.value() | host_bits(length_); }

  /// Whether the id is in the range.
  constexpr bool contains(bus_id id) const noexcept {
    return (id.value() & ~host_bits(length_)) == prefix_.value();
  }
  /// Whether all ids of the other range are in this one.
  constexpr bool contains(const id_range& other) const noexcept {
    return length_ <= other.length_ && contains(other.prefix_);
  }
  /// Whether the two ranges have an id in common.
  constexpr bool overlaps(const id_range& other) const noexcept {
    return contains(other) || other.contains(*this);
  }

  /// Ordered by prefix; a range comes before the ranges inside it.
  friend constexpr auto operator<=>(const id_range&, const id_range&) noexcept = default;

 private:
  constexpr id_range(bus_id prefix, unsigned length) noexcept : prefix_{prefix}, length_{length} {}

  // The bits below the prefix. A shift by 64 is undefined, hence the special case.
  static constexpr std::uint64_t host_bits(unsigned length) noexcept {
    return length < 64 ? std::numeric_limits<std::uint64_t>::max() >> length : 0;
  }

  bus_id prefix_;
  unsigned length_ = 0;
};

/// The element whose range contains `id` with the longest prefix, the first of equals; end if there
/// is none. `projection` maps an element to its id_range. Looks at every element: meant for the few
/// dozen ranges that a node knows.
template <std::ranges::forward_range Range, class Projection = std::identity>
constexpr std::ranges::borrowed_iterator_t<Range> longest_prefix(Range&& ranges, bus_id id,
                                                                 Projection projection = {}) {
  const auto end = std::ranges::next(std::ranges::begin(ranges), std::ranges::end(ranges));
  auto best = end;
  for (auto it = std::ranges::begin(ranges); it != end; ++it) {
    const id_range& range = std::invoke(projection, *it);
    if (!range.contains(id))
      continue;
    if (best == end || range.length() > std::invoke(projection, *best).length())
      best = it;
  }
  return best;
}

}  // namespace atbus
