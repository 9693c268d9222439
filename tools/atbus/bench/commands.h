// The subcommands of `atbus bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_throughput(CLI::App& bench);  // shm, mem, stream and node
void add_bench_latency(CLI::App& bench);
void add_bench_limit(CLI::App& bench);
void add_bench_request(CLI::App& bench);
void add_bench_cache(CLI::App& bench);
void add_bench_pool(CLI::App& bench);

}  // namespace atbus::bench
