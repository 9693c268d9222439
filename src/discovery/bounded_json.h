// Reads JSON that anybody may have written: no deeper than this, and nothing is thrown but std::bad_alloc.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace atbus::detail {

inline constexpr int json_depth_max = 16;

// Nothing: it is no JSON, or too deep.
[[nodiscard]] std::optional<nlohmann::json> read_json(std::string_view text);

}  // namespace atbus::detail
