// `atbus tap`, `record` and `replay`: what a node receives, watched, kept, and sent again.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_recordings(CLI::App& app);
void add_tap(CLI::App& app);
void add_record(CLI::App& app);
void add_replay(CLI::App& app);

}  // namespace atbus::tool
