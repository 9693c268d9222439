#include "atbus/bench/figures.h"

#include <algorithm>

namespace atbus::bench {
namespace {

void add_worker(side_figures& side, const worker_figures& one) noexcept {
  side.cpu_percent += one.cpu_percent;
  side.max_rss_kib = std::max(side.max_rss_kib, one.max_rss_kib);
  side.minor_faults += one.minor_faults;
  side.major_faults += one.major_faults;
  side.socket_buffer = std::max(side.socket_buffer, one.socket_buffer);
}

}  // namespace

void run_series::add(const run_outcome& outcome) {
  problems.insert(problems.end(), outcome.problems.begin(), outcome.problems.end());
  // A worker that never handed in its figures has no end; what is left is no measurement.
  if (!outcome.workers.empty() && outcome.workers.front().end_ns > outcome.start_ns &&
      outcome.start_ns != 0) {
    runs.push_back(figures_of(outcome));
  }
}

spread run_series::messages_per_second() const {
  return spread_of(runs, [](const run_figures& run) { return run.messages_per_second(); });
}

spread run_series::bytes_per_second() const {
  return spread_of(runs, [](const run_figures& run) { return run.bytes_per_second(); });
}

bool run_series::failed() const noexcept {
  return !problems.empty() || std::any_of(runs.begin(), runs.end(), [](const run_figures& run) {
    return run.lost + run.corrupt + run.reordered != 0;
  });
}

void add_problems(const run_series& yardstick, std::vector<std::string>& all) {
  all.insert(all.end(), yardstick.problems.begin(), yardstick.problems.end());
  if (yardstick.problems.empty() && yardstick.failed()) {
    all.emplace_back("the yardstick itself lost or damaged messages");
  }
}

latency_figures latency_of(const histogram& latency) noexcept {
  const auto us = [&latency](double share) {
    return static_cast<double>(latency.percentile(share)) / 1e3;
  };
  return {us(0.5), us(0.9), us(0.99), us(0.999), static_cast<double>(latency.max()) / 1e3};
}

run_figures figures_of(const run_outcome& outcome) {
  const worker_figures& first = outcome.workers.front();
  run_figures figures{.seconds = outcome.seconds(0),
                      .messages = first.messages,
                      .bytes = first.bytes,
                      .sender = {},
                      .receiver = {},
                      .latency = {}};
  for (const worker_figures& one : outcome.workers) {
    figures.lost += one.lost;
    figures.corrupt += one.corrupt;
    figures.reordered += one.reordered;
    add_worker(&one == &first ? figures.receiver : figures.sender, one);
  }
  if (outcome.latency.total() != 0) {
    figures.latency = latency_of(outcome.latency);
  }
  return figures;
}

}  // namespace atbus::bench
