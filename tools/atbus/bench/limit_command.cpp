#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "atbus/bench/commands.h"
#include "atbus/bench/framed_limit.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/limit.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/socket_limit.h"

namespace atbus::bench {
namespace {

struct limit_options {
  common_options common{.seconds = 0.3, .repeat = 1, .json = {}, .cpus = {}};
  check_kind check = check_kind::full;
  bool cache_line = false;
  bool framed = false;
  framed_options sockets;
};

// Everything that is measured, each repeated as often as asked, in turns.
struct limit_results {
  run_series copy_near;  // into an area that stays in the core's own cache
  run_series copy_far;
  run_series cache_line;
  struct ring {
    workload work;
    ring_limit limit;
  };
  std::vector<ring> rings;
  run_series ring_round_trip;
  run_series event_round_trip;

  struct socket_stream {
    socket_kind kind;
    socket_shape shape;
    socket_buffers buffers{};
    run_series series{};
  };
  std::vector<socket_stream> sockets;
  struct socket_ping {
    socket_kind kind;
    bool sleep;
    run_series series{};
  };
  std::vector<socket_ping> socket_round_trips;

  std::vector<std::string> problems() const;
};

constexpr std::uint64_t near_bytes = std::uint64_t{1} << 20;
// Beyond the core's own cache and within the one that cores share, where there is one.
constexpr std::uint64_t between_bytes = std::uint64_t{4} << 20;
constexpr std::uint64_t far_bytes = std::uint64_t{32} << 20;
constexpr std::uint64_t ping_bytes = 64;

std::vector<std::string> limit_results::problems() const {
  std::vector<std::string> all;
  for (const run_series* series :
       {&copy_near, &copy_far, &cache_line, &ring_round_trip, &event_round_trip}) {
    add_problems(*series, all);
  }
  for (const ring& one : rings) {
    add_problems(one.limit.best(), all);
  }
  for (const socket_stream& one : sockets) {
    add_problems(one.series, all);
  }
  for (const socket_ping& one : socket_round_trips) {
    add_problems(one.series, all);
  }
  return all;
}

void plan_sockets(const framed_options& options, limit_results& results) {
  for (const socket_kind kind : options.addresses) {
    for (const std::uint32_t write_bytes : {256U << 10, 16U << 10}) {
      socket_shape shape = options.shape;
      shape.write_bytes = write_bytes;
      results.sockets.push_back({kind, shape});
    }
    for (const bool sleep : {true, false}) {
      results.socket_round_trips.push_back({kind, sleep});
    }
  }
}

limit_results measure(const limit_options& options, const workload& base) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  workload ping = base;
  ping.unit_size = 0;
  ping.size = ping_bytes;

  limit_results results;
  for (const std::uint32_t unit_size : {16U, 2048U}) {
    for (const api_kind api : {api_kind::claim, api_kind::send}) {
      for (const std::uint64_t ring_bytes : {near_bytes, between_bytes}) {
        workload ring = base;
        ring.unit_size = unit_size;
        ring.api = api;
        ring.lane_size = ring_bytes;
        results.rings.push_back({ring, {}});
      }
    }
  }
  plan_sockets(options.sockets, results);
  const auto add = [](run_series& series, auto&& run) {
    if (!interrupted()) {
      series.add(run());
    }
  };
  for (std::uint32_t round = 0; round != options.common.repeat && !interrupted(); ++round) {
    add(results.copy_near, [&] { return run_copy(base, near_bytes, cpus); });
    add(results.copy_far, [&] { return run_copy(base, far_bytes, cpus); });
    add(results.cache_line, [&] { return run_cache_line_round_trip(base, cpus); });
    for (limit_results::ring& one : results.rings) {
      one.limit.measure(one.work, cpus);
    }
    add(results.ring_round_trip, [&] { return run_ring_round_trip(ping, cpus); });
    add(results.event_round_trip, [&] { return run_event_round_trip(ping, cpus); });
    for (limit_results::socket_stream& one : results.sockets) {
      add(one.series, [&] { return run_socket(base, one.kind, one.shape, cpus, one.buffers); });
    }
    for (limit_results::socket_ping& one : results.socket_round_trips) {
      ping.sleep = one.sleep;
      add(one.series, [&] { return run_socket_round_trip(ping, one.kind, cpus); });
    }
  }
  return results;
}

double round_trip_us(const run_series& series) {
  const double per_second = series.messages_per_second().median;
  return per_second > 0 ? 1e6 / per_second : 0;
}

std::string size_text(std::uint64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

void print_row(const std::string& what, const std::string& figure) {
  fmt::print(" {:<48} {}\n", what, figure);
}

void print_copy(const std::string& what, const run_series& series) {
  if (!series.runs.empty()) {
    const spread rate = series.bytes_per_second();
    print_row(what, byte_rate_text(rate.median) + range_text(series, rate, byte_rate_text));
  }
}

void print_round_trip(const std::string& what, const run_series& series) {
  if (!series.runs.empty()) {
    print_row(what, latency_text(median_latency(series)));
  }
}

void print_table(const limit_results& results) {
  print_copy("copy by one core into 1 MiB", results.copy_near);
  print_copy("copy by one core into 32 MiB", results.copy_far);
  if (!results.cache_line.runs.empty()) {
    print_row("cache line there and back", us_text(round_trip_us(results.cache_line)));
  }
  for (const limit_results::ring& one : results.rings) {
    const run_series& best = one.limit.best();
    if (best.runs.empty()) {
      continue;
    }
    const spread rate = best.messages_per_second();
    print_row(fmt::format("bare ring {}, {}, {}", size_text(one.work.lane_size),
                          length_text(one.work), name_of(one.work.api)),
              fmt::format("{}  {}  {}{}", message_rate_text(rate.median),
                          byte_rate_text(best.bytes_per_second().median),
                          one.limit.best_hangs_back() ? "hanging back" : "eager",
                          range_text(best, rate, message_rate_text)));
  }
  print_round_trip("bare ring, 64 B there and back", results.ring_round_trip);
  print_round_trip("eventfd there and back, sleeping", results.event_round_trip);
  for (const limit_results::socket_stream& one : results.sockets) {
    print_copy(
        fmt::format("{}, writes of {} KiB", address_of(one.kind), one.shape.write_bytes >> 10),
        one.series);
  }
  for (const limit_results::socket_ping& one : results.socket_round_trips) {
    print_round_trip(fmt::format("{}, 64 B there and back, {}", address_of(one.kind),
                                 one.sleep ? "sleeping" : "spinning"),
                     one.series);
  }
}

nlohmann::json json_of(const limit_results& results, const limit_options& options) {
  nlohmann::json rings = nlohmann::json::array();
  for (const limit_results::ring& one : results.rings) {
    nlohmann::json ring = bench::json_of(one.limit.best());
    ring["unit_size"] = one.work.unit_size;
    ring["ring_bytes"] = one.work.lane_size;
    ring["api"] = name_of(one.work.api);
    ring["hang_back"] = one.limit.best_hangs_back();
    rings.push_back(std::move(ring));
  }
  nlohmann::json sockets = nlohmann::json::array();
  for (const limit_results::socket_stream& one : results.sockets) {
    nlohmann::json socket = bench::json_of(one.kind, one.shape, one.buffers);
    socket["bytes_per_second"] = one.series.bytes_per_second().median;
    sockets.push_back(std::move(socket));
  }
  nlohmann::json socket_round_trips = nlohmann::json::array();
  for (const limit_results::socket_ping& one : results.socket_round_trips) {
    socket_round_trips.push_back({{"address", address_of(one.kind)},
                                  {"size", ping_bytes},
                                  {"sleep", one.sleep},
                                  {"latency_us", bench::json_of(median_latency(one.series))}});
  }
  return {{"workload", "limit"},
          {"seconds", options.common.seconds},
          {"copy",
           {{"into_1_mib", {{"bytes_per_second", results.copy_near.bytes_per_second().median}}},
            {"into_32_mib", {{"bytes_per_second", results.copy_far.bytes_per_second().median}}}}},
          {"cache_line_round_trip_us", round_trip_us(results.cache_line)},
          {"bare_ring", std::move(rings)},
          {"bare_ring_round_trip",
           {{"size", ping_bytes},
            {"latency_us", bench::json_of(median_latency(results.ring_round_trip))}}},
          {"eventfd_round_trip",
           {{"latency_us", bench::json_of(median_latency(results.event_round_trip))}}},
          {"socket", std::move(sockets)},
          {"socket_round_trip", std::move(socket_round_trips)}};
}

// What this machine has of the chosen addresses, or of all if none is chosen; what it lacks is said
// on standard error. Throws CLI::ValidationError for one that was chosen.
std::vector<socket_kind> usable_addresses(const std::vector<socket_kind>& chosen) {
  std::vector<socket_kind> usable;
  for (const socket_kind kind : all_socket_kinds) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), kind) == chosen.end()) {
      continue;
    }
    const std::string problem = unavailable(kind);
    if (problem.empty()) {
      usable.push_back(kind);
    } else if (chosen.empty()) {
      fmt::print(stderr, "note: not measured: {}\n", problem);
    } else {
      throw CLI::ValidationError("--address", problem);
    }
  }
  return usable;
}

void run_machine(const limit_options& options, const workload& base, json_output& output) {
  const limit_results results = measure(options, base);
  if (!output.takes_stdout()) {
    print_table(results);
  }
  conclude(output, json_of(results, options), results.problems());
}

void run_cache_line(const limit_options& options, const workload& base, json_output& output) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  run_series series;
  for (std::uint32_t round = 0; round != options.common.repeat && !interrupted(); ++round)
    series.add(run_cache_line_round_trip(base, cpus));
  std::vector<std::string> problems;
  add_problems(series, problems);
  if (!output.takes_stdout())
    print_row("cache line there and back", us_text(round_trip_us(series)));
  conclude(output,
           {{"workload", "limit"},
            {"seconds", options.common.seconds},
            {"cache_line_round_trip_us", round_trip_us(series)}},
           problems);
}

void run_framed(const limit_options& options, const workload& base, json_output& output) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  framed_limits limits{options.sockets, base};
  bool good = true;
  for (std::uint32_t round = 0; round != options.common.repeat && good && !interrupted(); ++round) {
    good = limits.measure(cpus);
  }
  if (!output.takes_stdout()) {
    limits.print();
  }
  conclude(output,
           {{"workload", "limit"}, {"seconds", options.common.seconds}, {"framed", limits.json()}},
           limits.problems());
}

void run(limit_options options) {
  json_output output{options.common.json};
  if (!options.cache_line)
    options.sockets.addresses = usable_addresses(options.sockets.addresses);
  workload base;
  base.duration_ns = options.common.duration_ns();
  base.check = options.check;
  const interrupt_guard guard;
  if (options.cache_line)
    return run_cache_line(options, base, output);
  options.framed ? run_framed(options, base, output) : run_machine(options, base, output);
}

void add_socket_options(CLI::App& command, framed_options& options) {
  std::map<std::string, socket_kind> addresses;
  for (const socket_kind kind : all_socket_kinds) {
    addresses.emplace(address_of(kind), kind);
  }
  add_choice(command, "--address", options.addresses, "sockets: only this one; may be repeated",
             addresses, "ipv6://::1|ipv4://127.0.0.1|unix")
      ->allow_extra_args(false);
  add_bytes(command, "--socket-buffer", options.shape.buffer_bytes,
            "sockets: buffer to ask the kernel for, such as 4M; 0: its own choice",
            std::uint64_t{0}, most_buffer_bytes);
  add_microseconds(command, "--spin", options.shape.spin_ns,
                   "sockets, not for round trips: how long a reader looks again before it sleeps");
}

}  // namespace

void add_bench_limit(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand(
      "limit",
      "What this machine allows, measured without the channels: copies, cache lines, a bare "
      "ring between two processes, wake-ups, sockets");
  const auto options = std::make_shared<limit_options>();
  add_common_options(*command, options->common);
  add_check_option(*command, options->check);
  CLI::Option* const framed =
      command->add_flag("--framed", options->framed,
                        "instead: framed messages over sockets, as well as code can carry them");
  command
      ->add_flag("--cache-line", options->cache_line,
                 "instead: only how long a cache line takes from one core to another and back")
      ->excludes(framed);
  add_socket_options(*command, options->sockets);
  add_framed_options(*command, options->sockets);
  command->callback([options] { run(*options); });
}

}  // namespace atbus::bench
