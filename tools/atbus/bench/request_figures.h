// What one run of a request benchmark came to, and what several of the same kind came to.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atbus/bench/figures.h"
#include "atbus/bench/request_tally.h"
#include "atbus/bench/worker_group.h"

namespace atbus::bench {

// How requests ended that were not answered, and what else is no success. Sums of all clients.
struct request_failures {
  std::uint64_t refused = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t failed = 0;
  std::uint64_t unanswered = 0;
  std::uint64_t unsent = 0;
  std::uint64_t blocked = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t out_of_memory = 0;  // of the service; `failed` has these, too

  void add(const request_failures& other) noexcept;
};

struct request_run {
  double seconds = 0;
  std::uint64_t answered = 0;
  double peak_per_second = 0;  // in the best tenth of the run
  double service_cpu_percent = 0;
  double client_cpu_percent = 0;  // of all together
  std::uint64_t service_rss_kib = 0;
  std::uint64_t client_rss_kib = 0;  // of the largest
  std::uint64_t in_hand_max = 0;
  std::uint64_t in_hand_limit = 0;
  std::uint64_t data_bytes_max = 0;
  latency_figures latency;
  request_failures failures;

  [[nodiscard]] double per_second() const noexcept;
  // Requests for each second of the service's CPU time.
  [[nodiscard]] double per_cpu_second() const noexcept;
  // Requests per second for each MiB that the service had resident at most.
  [[nodiscard]] double per_mib() const noexcept;
};

// Reads the arena of a run once its workers are over. What the workers' own figures have is added by
// `complete`.
request_run read_request_run(control_block& block);
void complete(request_run& run, const run_outcome& outcome);

// Runs with the same limit of memory, one after the other.
struct request_series {
  std::uint64_t memory_bytes = request_workload::no_limit;
  std::vector<request_run> runs;

  // "no limit", "50 MiB".
  [[nodiscard]] std::string memory_text() const;
  [[nodiscard]] request_failures failures() const noexcept;
  template <class Figure>
  [[nodiscard]] spread of(Figure figure) const {
    return spread_of(runs, figure);
  }
};

// "refused 3, timed out 1"; empty if all is well.
std::string failure_text(const request_failures& failures);

nlohmann::json json_of(const request_series& series);

}  // namespace atbus::bench
