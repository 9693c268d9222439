#include "atbus/nodes/json.h"

namespace atbus::tool {

nlohmann::ordered_json to_json(const node_rates& rates) {
  return {{"received", rates.received}, {"received_bytes", rates.received_bytes},
          {"sent", rates.sent},         {"sent_bytes", rates.sent_bytes},
          {"relayed", rates.relayed},   {"drops", rates.drops}};
}

}  // namespace atbus::tool
