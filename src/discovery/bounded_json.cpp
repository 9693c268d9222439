#include "discovery/bounded_json.h"

#include <utility>

namespace atbus::detail {

std::optional<nlohmann::json> read_json(std::string_view text) {
  using nlohmann::json;
  bool is_too_deep = false;
  const auto keep = [&is_too_deep](int depth, json::parse_event_t /*event*/, json& /*value*/) {
    is_too_deep = is_too_deep || depth > json_depth_max;
    return !is_too_deep;
  };
  json all = json::parse(text, keep, false);
  if (is_too_deep || all.is_discarded())
    return std::nullopt;
  return all;
}

}  // namespace atbus::detail
