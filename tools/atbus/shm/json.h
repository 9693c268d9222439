// Reports as JSON, for programs. Keys are the names of the structs in atbus/inspect.hpp.
#pragma once

#include <nlohmann/json.hpp>

#include "atbus/inspect.hpp"

namespace atbus::tool {

nlohmann::ordered_json to_json(const channel_stats& stats);
nlohmann::ordered_json to_json(const lane_report& lane);
// Without its lanes.
nlohmann::ordered_json to_json(const segment_report& segment);
nlohmann::ordered_json to_json(const records_report& records);
nlohmann::ordered_json to_json(const clean_report& report);

}  // namespace atbus::tool
