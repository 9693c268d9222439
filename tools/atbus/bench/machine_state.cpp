#include "atbus/bench/machine_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "atbus/bench/cpus.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/limit.h"
#include "atbus/bench/report.h"

namespace atbus::bench {
namespace {

// Times of one state differ by less; those of two states by more than twice.
constexpr double same_state = 1.5;

bool is_steady(const std::vector<double>& cache_line_us) {
  const spread us = spread_of(cache_line_us);
  return us.max <= us.min * same_state;
}

}  // namespace

void machine_watch::begin_round() {
  std::vector<double> before;
  if (!rounds_.empty() && !rounds_.back().empty())
    before.push_back(rounds_.back().back());
  rounds_.push_back(std::move(before));
}

void machine_watch::look(const std::vector<int>& cpus) {
  if (interrupted() || cpu_of_worker(cpus, 1) == cpus.front())
    return;
  workload moment;
  moment.duration_ns = ns_per_s / 50;
  const run_outcome outcome = run_cache_line_round_trip(moment, cpus);
  if (outcome.problems.empty() && outcome.workers.front().messages != 0) {
    rounds_.back().push_back(outcome.seconds(0) * 1e6 /
                             static_cast<double>(outcome.workers.front().messages));
  }
}

std::vector<machine_state> machine_watch::states() const {
  std::vector<std::size_t> order(rounds_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool has_steady = std::any_of(rounds_.begin(), rounds_.end(), is_steady);
  if (has_steady)
    std::erase_if(order, [this](std::size_t round) { return !is_steady(rounds_[round]); });
  std::sort(order.begin(), order.end(), [this](std::size_t left, std::size_t right) {
    return spread_of(rounds_[left]).median < spread_of(rounds_[right]).median;
  });
  std::vector<machine_state> all;
  std::vector<std::vector<double>> times;
  double nearest = 0;
  for (const std::size_t round : order) {
    const double us = spread_of(rounds_[round]).median;
    if (all.empty() || (has_steady && us > nearest * same_state)) {
      all.push_back({.cache_line_us = {}, .rounds = {}, .is_steady = has_steady});
      times.emplace_back();
      nearest = us;
    }
    all.back().rounds.push_back(round);
    times.back().insert(times.back().end(), rounds_[round].begin(), rounds_[round].end());
  }
  for (std::size_t i = 0; i != all.size(); ++i) {
    all[i].cache_line_us = spread_of(times[i]);
    std::sort(all[i].rounds.begin(), all[i].rounds.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const machine_state& left, const machine_state& right) {
                     return left.rounds.size() > right.rounds.size();
                   });
  return all;
}

std::string machine_watch::note() const {
  const auto moved = static_cast<std::size_t>(
      std::count_if(rounds_.begin(), rounds_.end(), [](const auto& us) { return !is_steady(us); }));
  if (moved == 0)
    return {};
  return fmt::format(
      "in {} of {} runs the cores moved: how long a cache line takes changed by more than half{}",
      moved, rounds_.size(),
      moved == rounds_.size() ? ", so compare no figures" : "; they count nowhere");
}

run_series select(const run_series& from, const std::vector<std::size_t>& rounds) {
  run_series made;
  made.problems = from.problems;
  for (const std::size_t round : rounds) {
    if (round < from.runs.size())
      made.runs.push_back(from.runs[round]);
  }
  return made;
}

std::string state_text(const machine_state& state, std::size_t all_rounds) {
  const spread& us = state.cache_line_us;
  std::string text = us.max > 0 ? fmt::format("cache line there and back: {:.2f} us", us.median)
                                : std::string{"both sides on one core"};
  if (us.max > us.min * 1.1)
    text += fmt::format(" ({:.2f}-{:.2f})", us.min, us.max);
  return all_rounds == 1 ? text
                         : text + fmt::format(", {} of {} runs", state.rounds.size(), all_rounds);
}

void print_states(const machine_watch& machine,
                  const std::function<void(const machine_state&)>& print) {
  for (const machine_state& state : machine.states()) {
    print(state);
    fmt::print(" {}\n", state_text(state, machine.rounds()));
  }
  print_note(machine.note());
}

nlohmann::json json_of_states(const machine_watch& machine,
                              const std::function<nlohmann::json(const machine_state&)>& json_of) {
  nlohmann::json all = nlohmann::json::array();
  for (const machine_state& state : machine.states()) {
    const spread& us = state.cache_line_us;
    nlohmann::json one = json_of(state);
    one["cache_line_us"] = {{"median", us.median}, {"min", us.min}, {"max", us.max}};
    all.push_back(std::move(one));
  }
  if (all.empty())
    return all;
  nlohmann::json result = all.front();
  result["all_runs"] = machine.rounds();
  if (all.size() > 1)
    result["states"] = std::move(all);
  return result;
}

}  // namespace atbus::bench
