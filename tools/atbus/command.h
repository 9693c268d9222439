// `atbus command ADDRESS NAME [ARG...]`: asks the node there for something, as a visitor.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_command(CLI::App& app);

}  // namespace atbus::tool
