// What one run came to, and what several runs of the same kind came to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bench/statistics.h"
#include "atbus/bench/worker_group.h"

namespace atbus::bench {

// All senders together, or the receiver: CPU time and faults add up, of the memory the largest
// counts.
struct side_figures {
  double cpu_percent = 0;
  std::uint64_t max_rss_kib = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t socket_buffer = 0;
};

struct latency_figures {
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

struct run_figures {
  double seconds = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t reordered = 0;
  side_figures sender;
  side_figures receiver;
  std::optional<latency_figures> latency;

  double messages_per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(messages) / seconds : 0;
  }
  double bytes_per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  }
};

// Runs of the same work, one after the other. `problems` of all of them.
struct run_series {
  std::vector<run_figures> runs;
  std::vector<std::string> problems;

  void add(const run_outcome& outcome);

  spread messages_per_second() const;
  spread bytes_per_second() const;
  // True if something was lost, corrupt, out of order, or did not run to its end.
  bool failed() const noexcept;
};

// A ratio of each pair of runs made side by side, because a machine may change between pairs.
// `ratio(run, other)` is negative for a pair that has none.
template <class Ratio>
spread spread_of_pairs(const run_series& series, const run_series& other, Ratio ratio) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i != std::min(series.runs.size(), other.runs.size()); ++i) {
    if (const double one = ratio(series.runs[i], other.runs[i]); one >= 0) {
      ratios.push_back(one);
    }
  }
  return spread_of(std::move(ratios));
}

// Adds why a yardstick's figures can't be trusted, if they can't.
void add_problems(const run_series& yardstick, std::vector<std::string>& all);

latency_figures latency_of(const histogram& latency) noexcept;

// Worker 0 is the receiver (or the one that measures), the others send.
run_figures figures_of(const run_outcome& outcome);

}  // namespace atbus::bench
