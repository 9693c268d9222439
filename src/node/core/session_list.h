// The sessions of a node, one for each of its links.
#pragma once

#include <memory>
#include <vector>

#include "node/peer/session.h"

namespace atbus::detail {

using session_list = std::vector<std::unique_ptr<session>>;

}  // namespace atbus::detail
