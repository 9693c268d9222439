// `atbus bench shm` and `atbus bench mem`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_throughput(CLI::App& bench);

}  // namespace atbus::bench
