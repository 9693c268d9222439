// `atbus bench pool`
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::bench {

void add_bench_pool(CLI::App& bench);

}  // namespace atbus::bench
