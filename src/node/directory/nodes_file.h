// Parses the text of a nodes file: the addresses of nodes. doc/nodes.md has the format.
//
// A file beyond the limits, by mistake or on purpose, is refused as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atbus/status.hpp"

namespace atbus::detail {

inline constexpr std::size_t nodes_file_nodes_max = 65536;
inline constexpr std::size_t nodes_file_addresses_max = 16;  // of one node

using node_addresses = std::unordered_map<std::uint64_t, std::vector<std::string>>;

// Errors (invalid_argument): "NAME:line:column: what is wrong, and what is expected there".
[[nodiscard]] result<node_addresses> read_nodes_file(std::string_view text, std::string_view name);

}  // namespace atbus::detail
