// Checks the relation that two nodes claim to have: doc/design/routing.md. Pure.
#pragma once

#include "atbus/status.hpp"
#include "node/route/route_table.h"
#include "protocol/handshake.h"

namespace atbus::detail {

// Why `who` can't be to the node of `routes` what it says (denied, with both ids and ranges); no
// error: it can.
[[nodiscard]] error check_relation(const route_table& routes, const peer_identity& who);

}  // namespace atbus::detail
