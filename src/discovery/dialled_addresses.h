// Where other nodes can dial a node that listens on all interfaces (0.0.0.0, [::]), which are no place to dial.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atbus::detail {

// Whether it can stand in place of all interfaces: an address of IPv4 or IPv6, or a name.
[[nodiscard]] bool is_host(std::string_view host);

// Of a node that listens at `said`. All interfaces become `host`; if that is empty, `seen`: the address from which this
// program reaches the registry. They are left out if neither is of their family.
[[nodiscard]] std::vector<std::string> addresses_to_dial(const std::vector<std::string>& said,
                                                         std::string_view host,
                                                         std::string_view seen);

}  // namespace atbus::detail
