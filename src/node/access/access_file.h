// Parses the text of a file of access rules. doc/security.md has the format.
//
// A file with an error anywhere is refused as a whole.
#pragma once

#include <cstddef>
#include <string_view>

#include "atbus/status.hpp"
#include "node/access/access_rules.h"

namespace atbus::detail {

inline constexpr std::size_t access_entries_max = 4096;  // of each of the two kinds
inline constexpr std::size_t access_values_max = 4096;   // of one list

// Errors (invalid_argument): "NAME:line:column: what is wrong, and what is expected there".
[[nodiscard]] result<access_rules> read_access_file(std::string_view text, std::string_view name);

// Reads where a node is: "10.0.0.7", "fd00::7", or "user:1000" for a process of that user on this host. Errors: invalid_argument.
[[nodiscard]] result<link_origin> read_origin(std::string_view text);

}  // namespace atbus::detail
