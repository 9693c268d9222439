// `atbus access check FILE`: what a file of access rules allows.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_access(CLI::App& app);

}  // namespace atbus::tool
