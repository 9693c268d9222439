// `atbus completion`: what a shell has to know to complete the command's words.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

// After all other subcommands.
void add_completion(CLI::App& app);

}  // namespace atbus::tool
