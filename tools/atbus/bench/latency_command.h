// `atbus bench latency`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_latency(CLI::App& bench);

}  // namespace atbus::bench
