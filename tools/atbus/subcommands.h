// How the command and its groups of subcommands behave without one, or with one they do not know.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

// Exactly one subcommand, checked after everything else: CLI11's own check comes first and would
// hide the name of one that was misspelt.
inline void require_one_subcommand(CLI::App& app) {
  app.require_subcommand(0, 1);
  app.callback([&app] {
    if (app.get_subcommands().empty()) {
      throw CLI::RequiredError::Subcommand(1);
    }
  });
}

}  // namespace atbus::tool
