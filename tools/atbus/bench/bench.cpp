#include "atbus/bench/bench.h"

#include "atbus/bench/commands.h"
#include "atbus/subcommands.h"

namespace atbus::bench {

void add_bench(CLI::App& app) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure the channels and the machine");
  tool::require_one_subcommand(*bench);
  add_bench_throughput(*bench);
  add_bench_latency(*bench);
  add_bench_limit(*bench);
  add_bench_request(*bench);
  add_bench_cache(*bench);
  add_bench_pool(*bench);
}

}  // namespace atbus::bench
