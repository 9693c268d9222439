// `atbus shm ls|show|clean`: the shared-memory segments of this host.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_shm(CLI::App& app);

}  // namespace atbus::tool
