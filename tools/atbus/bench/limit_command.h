// `atbus bench limit`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_limit(CLI::App& bench);

}  // namespace atbus::bench
