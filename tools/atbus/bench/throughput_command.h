// `atbus bench shm`, `atbus bench mem` and `atbus bench stream`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_throughput(CLI::App& bench);

}  // namespace atbus::bench
