// What only the command has as JSON; the rest is in http/report/report_json.h.
#pragma once

#include <nlohmann/json.hpp>

#include "atbus/nodes/reports.h"
#include "http/report/report_json.h"

namespace atbus::tool {

using detail::to_json;
using detail::to_json_with_peers;

nlohmann::ordered_json to_json(const node_rates& rates);

}  // namespace atbus::tool
