// `atbus relay --config FILE`: a node that passes messages on, and does nothing else.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_relay(CLI::App& app);

}  // namespace atbus::tool
