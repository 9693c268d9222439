// How far the cores were from each other while a benchmark ran. On a virtual machine they may share a cache in one
// second and not in the next, which changes all figures by up to a factor of five: those of different states are never
// put together.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "atbus/bench/figures.h"
#include "atbus/bench/statistics.h"

namespace atbus::bench {

// Rounds that were measured while a cache line took the same time from one core to the other and back.
struct machine_state {
  spread cache_line_us;             // all zero: it was not measured
  std::vector<std::size_t> rounds;  // the first is 0
  bool is_steady = true;            // false: the cores moved in each of them
};

// One per benchmark. A round is what runs side by side. What the cache line took at the end of a round counts for the next
// one too.
class machine_watch {
 public:
  void begin_round();
  // Measures the cache line for a moment: between the runs of a round, and at its end.
  void look(const std::vector<int>& cpus);

  // The state with the most rounds first. Rounds in which the cores moved are in none of them, unless they all are.
  [[nodiscard]] std::vector<machine_state> states() const;
  // A sentence about rounds in which the cores moved; empty if there are none.
  [[nodiscard]] std::string note() const;
  [[nodiscard]] std::size_t rounds() const noexcept { return rounds_.size(); }
  // A round with these times.
  void add(std::vector<double> cache_line_us) { rounds_.push_back(std::move(cache_line_us)); }

 private:
  std::vector<std::vector<double>> rounds_;  // the times of each
};

run_series select(const run_series& from, const std::vector<std::size_t>& rounds);

// "cache line there and back: 0.14 us (0.13-0.16), 5 of 7 runs"
std::string state_text(const machine_state& state, std::size_t all_rounds);
// Prints the figures of each state, and which one it is.
void print_states(const machine_watch& machine,
                  const std::function<void(const machine_state&)>& print);
// The figures of the state with the most runs, its "cache_line_us", and "all_runs", which counts those of other states
// too; if there are several, all of them as "states".
nlohmann::json json_of_states(const machine_watch& machine,
                              const std::function<nlohmann::json(const machine_state&)>& json_of);

}  // namespace atbus::bench
