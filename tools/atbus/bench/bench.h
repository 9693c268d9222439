// `atbus bench`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench(CLI::App& app);

}  // namespace atbus::bench
