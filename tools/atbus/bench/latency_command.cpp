#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/commands.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/limit.h"
#include "atbus/bench/machine_state.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/socket_limit.h"

namespace atbus::bench {
namespace {

struct latency_options {
  common_options common{.seconds = 2, .repeat = 1, .json = {}, .cpus = {}};
  std::vector<std::string> addresses;
  std::uint64_t size = 64;
  bool limit = false;
  bool nodes = false;
  bool channel = false;  // beside the nodes
  workload work;
};

struct latency_results {
  run_series ours;
  run_series limit;
  std::vector<histogram> times;  // of each run

  latency_results of_rounds(const std::vector<std::size_t>& rounds) const {
    return {.ours = select(ours, rounds),
            .limit = select(limit, rounds),
            .times = {times[std::min(rounds.back(), times.size() - 1)]}};
  }

  // The limit's median time by ours: 1 is as fast, 0.5 takes twice the time.
  spread shares() const {
    return spread_of_pairs(ours, limit, [](const auto& mine, const auto& theirs) {
      const bool both = mine.latency && theirs.latency && mine.latency->p50_us > 0;
      return both ? theirs.latency->p50_us / mine.latency->p50_us : -1;
    });
  }
};

const char* limit_name(const latency_options& options, const workload& work) noexcept {
  if (options.nodes) {
    return "bare channel";
  }
  if (work.stream && !work.moves_to_lanes) {
    return work.sleep ? "sleeping socket" : "spinning socket";
  }
  return work.sleep ? "eventfd" : "bare ring";
}

std::string_view scheme_of(std::string_view address) noexcept {
  return address.substr(0, std::min(address.find("://"), address.size()));
}

bool is_tcp(std::string_view address) noexcept {
  const auto kind = kind_of(address);
  return kind && kind != socket_kind::local;
}

// Another one of the same kind.
std::string reply_address_for(const std::string& first) {
  if (is_tcp(first)) {
    return first.substr(0, first.rfind(':')) + ":0";
  }
  const std::size_t end = std::min(first.find('?'), first.size());
  return first.substr(0, end) + "-reply" + first.substr(end);
}

// Completes the workload from the options; refuses what can't be measured.
workload plan(const latency_options& options) {
  workload work = options.work;
  work.duration_ns = options.common.duration_ns();
  work.unit_size = 0;
  work.size = options.size;
  const std::string first =
      options.addresses.empty() ? own_address("shm") : options.addresses.front();
  const std::string second =
      options.addresses.size() < 2 ? reply_address_for(first) : options.addresses[1];
  set_channel_address("ADDRESS", first, work.address);
  set_channel_address("ADDRESS", second, work.reply_address);
  work.stream = kind_of(first).has_value();
  work.moves_to_lanes = moves_to_lanes(first);
  work.checksum = is_tcp(first);  // as the library does
  if (first == second && !(is_tcp(first) && first.ends_with(":0"))) {
    throw CLI::ValidationError("ADDRESS", "the two must differ: each side receives at its own");
  }
  if ((scheme_of(first) == "mem") != (scheme_of(second) == "mem")) {
    throw CLI::ValidationError("ADDRESS",
                               "mem:// is within one process; use it for both or neither");
  }
  return work;
}

// Both ends in one process, and so many relays.
run_outcome run_own_ends(const workload& work, const std::vector<int>& cpus) {
  std::vector<task> tasks(1 + work.hops, task::node_relay);
  tasks.front() = task::node_both_ends;
  return run_workers(
      work, tasks,
      {.cpus = cpus, .label = fmt::format("{} over {} relays", length_text(work), work.hops)});
}

run_outcome run_pair(const workload& work, task ping, task pong, const std::vector<int>& cpus) {
  const std::array tasks{ping, pong};
  return run_workers(
      work, tasks,
      {.cpus = cpus, .threads = work.in_process(), .label = length_text(work) + " there and back"});
}

run_outcome run_limit(const latency_options& options, const workload& work,
                      const std::vector<int>& cpus) {
  if (options.nodes) {
    return run_pair(work, task::channel_ping, task::channel_pong, cpus);
  }
  if (const auto kind = kind_of(work.address.data()); kind && !work.moves_to_lanes) {
    return run_socket_round_trip(work, *kind, cpus);
  }
  return work.sleep ? run_event_round_trip(work, cpus) : run_ring_round_trip(work, cpus);
}

latency_results measure(const latency_options& options, const workload& work,
                        machine_watch& machine) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  latency_results results;
  for (std::uint32_t round = 0; round != options.common.repeat && !interrupted(); ++round) {
    machine.begin_round();
    const run_outcome outcome = work.own_ends ? run_own_ends(work, cpus)
                                : options.nodes
                                    ? run_pair(work, task::node_ping, task::node_pong, cpus)
                                    : run_pair(work, task::channel_ping, task::channel_pong, cpus);
    results.ours.add(outcome);
    results.times.push_back(outcome.latency);
    // A node leaves a segment with a name to its successor.
    if (!outcome.problems.empty() || options.nodes) {
      remove_all_leftovers(work);
    }
    if (!outcome.problems.empty()) {
      break;
    }
    if ((options.limit || options.channel) && !interrupted()) {
      machine.look(cpus);
      results.limit.add(run_limit(options, work, cpus));
    }
    machine.look(cpus);
  }
  return results;
}

void print_table(const latency_options& options, const workload& work,
                 const latency_results& results) {
  if (results.ours.runs.empty()) {
    return;
  }
  fmt::print("{}\n", histogram_text(results.times.back()));
  const auto what = fmt::format("{} there and back", length_text(work));
  fmt::print(" {:<26} {}\n", what, latency_text(median_latency(results.ours)));
  if (!results.limit.runs.empty()) {
    fmt::print(" {:<26} {}\n", limit_name(options, work),
               latency_text(median_latency(results.limit)));
    if (const spread share = results.shares(); share.min > 0) {
      fmt::print(" p50 is {:.2f} x that of the {} ({:.2f} to {:.2f})\n", 1 / share.median,
                 limit_name(options, work), 1 / share.max, 1 / share.min);
    }
  }
}

nlohmann::json json_of(const latency_options& options, const workload& work,
                       const latency_results& results) {
  nlohmann::json result = bench::json_of(results.ours);
  result.erase("sender");
  result.erase("receiver");
  result["workload"] = "latency";
  result["nodes"] = options.nodes;
  if (work.own_ends) {
    result["hops"] = work.hops;
  }
  result["address"] = work.address.data();
  result["reply_address"] = work.reply_address.data();
  result["size"] = work.size;
  result["sleep"] = work.sleep;
  if (!results.limit.runs.empty()) {
    result[options.nodes ? "channel" : "limit"] = {
        {"latency_us", bench::json_of(median_latency(results.limit))},
        {"share", results.shares().median}};
  }
  return result;
}

void run(const latency_options& options) {
  const workload work = plan(options);
  json_output output{options.common.json};
  const interrupt_guard guard;
  machine_watch machine;
  const latency_results results = measure(options, work, machine);
  if (!output.takes_stdout()) {
    print_states(machine, [&](const machine_state& state) {
      print_table(options, work, results.of_rounds(state.rounds));
    });
  }
  conclude(output, results.ours, results.limit, [&] {
    return json_of_states(machine, [&](const machine_state& state) {
      return json_of(options, work, results.of_rounds(state.rounds));
    });
  });
}

}  // namespace

void add_bench_latency(CLI::App& bench) {
  CLI::App* const command =
      bench.add_subcommand("latency", "Time of a message there and back, over any two addresses");
  const auto options = std::make_shared<latency_options>();
  command
      ->add_option(
          "ADDRESS,--address", options->addresses,
          "where the answering and where the asking side receives (default: two of shm://)")
      ->expected(0, 2);
  add_number(*command, "--size", options->size, "bytes of a message", std::uint64_t{8},
             most_message_bytes, "BYTES")
      ->capture_default_str();
  add_number(*command, "--count", options->work.round_trips,
             "end after so many round trips, even before --seconds", std::uint64_t{1},
             std::uint64_t{1} << 40);
  command->add_flag("--sleep", options->work.sleep,
                    "both sides sleep when nothing is there, instead of polling");
  add_microseconds(*command, "--spin", options->work.spin_ns,
                   "the longest that --sleep spins before it sleeps");
  add_prefault_flag(*command, options->work);
  add_common_options(*command, options->common);
  CLI::Option* const limit = command->add_flag(
      "--limit", options->limit,
      "run the bare ring (with --sleep an eventfd), for streams a bare socket, in "
      "turns with it and compare");
  CLI::Option* const hops = add_hops_option(*command, options->work,
                                            "between two nodes of one process, over so many relays")
                                ->excludes(limit);
  CLI::Option* const nodes =
      command
          ->add_flag("--node", options->nodes,
                     "between two nodes, the asking one listens at the first address")
          ->excludes(limit);
  command
      ->add_flag("--channel", options->channel,
                 "run the bare channel in turns with the nodes and compare")
      ->needs(nodes);
  command->callback([options, hops] {
    options->work.own_ends = hops->count() != 0;
    options->nodes |= options->work.own_ends;
    run(*options);
  });
}

}  // namespace atbus::bench
