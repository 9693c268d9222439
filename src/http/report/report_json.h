// Reports of nodes as JSON, for programs. Keys are the names of the structs in atbus/node_report.hpp.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "atbus/node_report.hpp"

namespace atbus::detail {

// Without its peers. Times are in nanoseconds, moments in nanoseconds since 1970.
nlohmann::ordered_json to_json(const node_report_file& file);
nlohmann::ordered_json to_json(const peer_report& peer);
// With its first peers.
nlohmann::ordered_json to_json_with_peers(const node_report_file& file, std::size_t most);

}  // namespace atbus::detail
