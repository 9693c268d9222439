// Where a child of one parent finds another: what the parent tells of it, and which of that is dialled.
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/address.hpp"

namespace atbus::detail {

inline constexpr std::size_t sibling_addresses_max = 8;  // of one child; more are not told

// Of a child that says that it listens at `said`, and whose link comes from `seen` (link::peer). All
// interfaces of a host (0.0.0.0, [::]) are no place to dial: that becomes where its link comes from, or
// is left out.
[[nodiscard]] std::vector<std::string> addresses_to_tell(const std::vector<std::string>& said,
                                                         std::string_view seen);

// Whether an address that a parent has told is worth a dial: what means something on one host only from
// there; TCP to one host, and no name to be asked for.
[[nodiscard]] bool is_worth_dialling(const address& to, bool same_host) noexcept;

}  // namespace atbus::detail
