// The channels of a node in a process.
#pragma once

#include <memory>

#include "atbus/node/node_options.hpp"
#include "node/link.h"

namespace atbus::detail {

[[nodiscard]] std::unique_ptr<transport> make_channels(const node_options& options);

}  // namespace atbus::detail
