// Parses the text of a nodes file: the records of nodes. doc/nodes.md has the format.
//
// A file beyond the limits, by mistake or on purpose, is refused as a whole.
#pragma once

#include <cstddef>
#include <string_view>

#include "atbus/status.hpp"
#include "node/directory/record_table.h"

namespace atbus::detail {

inline constexpr std::size_t nodes_file_nodes_max = 65536;
// Of one node.
inline constexpr std::size_t nodes_file_addresses_max = 16;
inline constexpr std::size_t nodes_file_services_max = 256;
inline constexpr std::size_t nodes_file_labels_max = 64;

// Errors (invalid_argument): "NAME:line:column: what is wrong, and what is expected there".
[[nodiscard]] result<record_table::records> read_nodes_file(std::string_view text,
                                                            std::string_view name);

}  // namespace atbus::detail
