// Reports of nodes as JSON, for programs. Keys are the names of the structs in atbus/node_report.hpp.
#pragma once

#include <nlohmann/json.hpp>

#include "atbus/node_report.hpp"
#include "atbus/nodes/reports.h"

namespace atbus::tool {

// Without its peers. Times are in nanoseconds, moments in nanoseconds since 1970.
nlohmann::ordered_json to_json(const node_report_file& file);
nlohmann::ordered_json to_json(const peer_report& peer);
nlohmann::ordered_json to_json(const node_rates& rates);

}  // namespace atbus::tool
