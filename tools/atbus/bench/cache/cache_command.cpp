#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "atbus/bench/cache/cache_cases.h"
#include "atbus/bench/cache/cache_rival.h"
#include "atbus/bench/cache/cache_tally.h"
#include "atbus/bench/commands.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/statistics.h"
#include "atbus/bench/worker_group.h"

namespace atbus::bench {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct cache_options {
  std::uint64_t memory = 256 * mib;
  std::optional<std::uint64_t> value_size;
  std::string mix = "fixed";
  std::optional<std::uint64_t> cases;
  std::optional<std::uint64_t> gets;
  double hot_percent = 20;
  double hot_access_percent = 80;
  std::uint64_t seed = 1;
  std::uint32_t clients = 1;
  std::uint32_t in_flight = 8;
  bool huge_pages = true;
  std::vector<std::string> systems{"atbus", "memcached", "redis"};
  std::vector<std::string> over{"shm", "unix", "tcp"};
  double timeout_seconds = 600;
  common_options common;  // without --seconds
};

struct cache_run {
  cache_client_tally clients{};  // of all
  cache_server_tally server{};
  double seconds = 0;

  double operations() const noexcept { return static_cast<double>(clients.gets + clients.sets); }
  double hit_percent() const noexcept { return percent(clients.hits, clients.gets); }
  double hot_hit_percent() const noexcept { return percent(clients.hot_hits, clients.hot_gets); }
  double peak_mib() const noexcept { return static_cast<double>(server.peak_kib) / 1024; }
  double hit_percent_per_gib() const noexcept {
    return server.peak_kib != 0 ? hit_percent() * 1024 / peak_mib() : 0;
  }
  double ns_per_operation() const noexcept {
    return operations() > 0 ? seconds * 1e9 / operations() : 0;
  }
  double cpu_ns_per_operation() const noexcept {
    return operations() > 0 ? static_cast<double>(server.cpu_ns) / operations() : 0;
  }
  double bytes_per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(clients.value_bytes) / seconds : 0;
  }

 private:
  static double percent(std::uint64_t part, std::uint64_t of) noexcept {
    return of != 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(of) : 0;
  }
};

struct cache_row {
  cache_system system;
  std::string over;
  bool is_installed = true;
  std::vector<cache_run> runs{};

  double median(double (cache_run::*figure)() const noexcept) const {
    return spread_of(runs, [figure](const cache_run& run) { return (run.*figure)(); }).median;
  }
  double median(std::uint64_t cache_client_tally::*count) const {
    return spread_of(runs, [count](const cache_run& run) { return run.clients.*count; }).median;
  }
  std::uint64_t sum(std::uint64_t cache_client_tally::*count) const noexcept {
    std::uint64_t all = 0;
    for (const cache_run& run : runs) {
      all += run.clients.*count;
    }
    return all;
  }
};

// Removed with everything in it.
class cache_directory {
 public:
  cache_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "atbus-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error(name + ": " + std::strerror(errno));
    }
    path_ = name;
  }
  ~cache_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  cache_directory(const cache_directory&) = delete;
  cache_directory& operator=(const cache_directory&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

std::uint64_t rounded(double number) noexcept {
  return static_cast<std::uint64_t>(std::llround(number));
}

// Completes the workload from the options; refuses what can't be measured.
workload cache_plan(const cache_options& options) {
  workload work;
  cache_workload& cache = work.cache;
  if (options.memory % mib != 0) {
    throw CLI::ValidationError("--memory", "must be a whole number of MiB: memcached counts so");
  }
  if (options.mix == "web" && options.value_size) {
    throw CLI::ValidationError("--value-size", "is of --mix fixed; --mix web has its own sizes");
  }
  constexpr std::uint64_t usual_value_bytes = 525'312;
  cache.memory_bytes = options.memory;
  cache.value_bytes = options.mix == "web" ? 0 : options.value_size.value_or(usual_value_bytes);
  if (cache.value_bytes > cache.memory_bytes / 4) {
    throw CLI::ValidationError("--value-size", "must be at most a quarter of --memory");
  }
  const double mean_bytes =
      cache.value_bytes != 0 ? static_cast<double>(cache.value_bytes) : cache_cases::mixed_mean();
  cache.cases = options.cases.value_or(std::max<std::uint64_t>(
      rounded(4 * static_cast<double>(cache.memory_bytes) / mean_bytes), 2));
  cache.gets = options.gets.value_or(4 * cache.cases);
  cache.hot_cases = std::clamp<std::uint64_t>(
      static_cast<std::uint64_t>(static_cast<double>(cache.cases) * options.hot_percent / 100), 1,
      cache.cases - 1);
  cache.hot_access = options.hot_access_percent / 100;
  cache.seed = options.seed;
  cache.in_flight = options.in_flight;
  cache.huge_pages = options.huge_pages;
  work.senders = work.connections = options.clients;
  work.duration_ns = static_cast<std::int64_t>(options.timeout_seconds * 1e9);
  work.sleep = true;
  work.growing_buffer = true;
  return work;
}

std::string cache_address(const std::string& over) {
  const std::string name = "bench-" + std::to_string(getpid());
  return over == "tcp"    ? "ipv4://127.0.0.1:0"
         : over == "unix" ? "unix://@" + name + "?shm=false"
                          : "shm://" + name;
}

void measure_cache(const cache_options& options, workload work, cache_row& row,
                   std::vector<std::string>& problems) {
  const bool is_ours = row.system == cache_system::atbus;
  std::optional<cache_directory> directory;
  if (!is_ours) {
    directory.emplace();
  }
  work.cache.system = row.system;
  work.cache.over_tcp = row.over == "tcp";
  const std::string address = is_ours ? cache_address(row.over) : directory->path();
  if (address.size() >= work.address.size()) {
    throw std::runtime_error(address + ": this name is too long; set TMPDIR to a shorter one");
  }
  std::memcpy(work.address.data(), address.c_str(), address.size() + 1);
  std::vector<task> tasks(1 + options.clients,
                          is_ours ? task::cache_client : task::cache_rival_client);
  tasks.front() = is_ours ? task::cache_server : task::cache_rival_server;
  const std::string label = std::string{name_of(row.system)} + " over " + row.over;
  cache_run run;
  const run_outcome outcome =
      run_workers(work, tasks,
                  {.cpus = options.common.chosen_cpus(),
                   .label = label,
                   .arena_bytes = cache_tally_bytes(options.clients),
                   .read_arena = [&](control_block& block) {
                     run.server = cache_tally_of_server(block);
                     run.clients.is_complete = true;
                     for (std::uint32_t client = 1; client <= options.clients; ++client) {
                       run.clients.add(cache_tally_of_client(block, client));
                     }
                   }});
  if (is_ours) {
    remove_all_leftovers(work);
  }
  for (const std::string& problem : outcome.problems) {
    problems.push_back(label + ": " + problem);
  }
  if (!outcome.problems.empty()) {
    return;
  }
  run.seconds = static_cast<double>(run.clients.end_ns - outcome.start_ns) / 1e9;
  if (!run.clients.is_complete && !outcome.interrupted) {
    problems.push_back(
        fmt::format("{}: not done after {} s; see --timeout", label, options.timeout_seconds));
  }
  if (run.clients.corrupt != 0) {
    problems.push_back(fmt::format("{}: {} values were wrong", label, run.clients.corrupt));
  }
  if (run.clients.failed != 0) {
    problems.push_back(fmt::format("{}: {} requests had no answer", label, run.clients.failed));
  }
  row.runs.push_back(run);
}

std::vector<cache_row> cache_rows(const cache_options& options) {
  std::vector<cache_row> rows;
  for (const cache_system system :
       {cache_system::atbus, cache_system::memcached, cache_system::redis}) {
    if (std::find(options.systems.begin(), options.systems.end(), name_of(system)) ==
        options.systems.end()) {
      continue;
    }
    const bool is_installed = system == cache_system::atbus || is_rival_installed(system);
    for (const char* const over : {"shm", "unix", "tcp"}) {
      const bool is_asked_for =
          std::find(options.over.begin(), options.over.end(), over) != options.over.end();
      const bool is_known = system == cache_system::atbus || std::string_view{over} != "shm";
      if (is_asked_for && is_known) {
        rows.push_back({.system = system, .over = over, .is_installed = is_installed});
      }
    }
  }
  return rows;
}

// All rows once, then all rows again: what disturbs the machine for a while disturbs them alike.
void measure_rows(const cache_options& options, const workload& work, std::vector<cache_row>& rows,
                  std::vector<std::string>& problems) {
  for (std::uint32_t round = 0; round != options.common.repeat; ++round) {
    for (cache_row& row : rows) {
      if (interrupted()) {
        return;
      }
      if (row.is_installed) {
        measure_cache(options, work, row, problems);
      }
    }
  }
}

void print_cache_row(const cache_row& row) {
  fmt::print(" {:<10}{:<6}", name_of(row.system), row.over);
  if (!row.is_installed) {
    fmt::print("{:>10}\n", "not installed");
    return;
  }
  if (row.runs.empty()) {
    fmt::print("{:>10}\n", "failed");
    return;
  }
  fmt::print(
      "{:>10.0f}{:>10.0f}{:>8.2f}%{:>10.0f}{:>8.2f}%{:>11.1f}{:>10.1f}{:>10.0f}{:>10.0f}{:>10.1f}"
      "\n",
      row.median(&cache_client_tally::gets), row.median(&cache_client_tally::hits),
      row.median(&cache_run::hit_percent), row.median(&cache_client_tally::hot_hits),
      row.median(&cache_run::hot_hit_percent), row.median(&cache_run::peak_mib),
      row.median(&cache_run::hit_percent_per_gib), row.median(&cache_run::ns_per_operation),
      row.median(&cache_run::cpu_ns_per_operation), row.median(&cache_run::bytes_per_second) / 1e6);
  if (const std::uint64_t refused = row.sum(&cache_client_tally::sets_refused); refused != 0) {
    fmt::print(" {:<16}{} sets were refused\n", "", refused);
  }
}

std::string value_text(const cache_workload& cache) {
  return cache.value_bytes != 0
             ? fmt::format("{} B", cache.value_bytes)
             : fmt::format("{} to {} B", cache_cases::mixed_min, cache_cases::mixed_max);
}

void print_cache_table(const cache_options& options, const workload& work,
                       const std::vector<cache_row>& rows) {
  const cache_workload& cache = work.cache;
  fmt::print("{} MiB of memory, {} keys with values of {}, {} of them hot with {} % of {} gets;\n",
             cache.memory_bytes / mib, cache.cases, value_text(cache), cache.hot_cases,
             options.hot_access_percent, cache.gets);
  fmt::print("{} client{}, {} in flight each; a miss is followed by a set.\n", options.clients,
             options.clients == 1 ? "" : "s", cache.in_flight);
  fmt::print(
      "Medians of {} run{}. An operation is a get or a set; MB/s are of values, both ways.\n"
      "peak MiB: VmHWM of the server, which has one core; cpu: what it uses. per GiB: hit rate per "
      "peak.\n\n",
      options.common.repeat, options.common.repeat == 1 ? "" : "s");
  fmt::print(" {:<10}{:<6}{:>10}{:>10}{:>9}{:>10}{:>9}{:>11}{:>10}{:>10}{:>10}{:>10}\n", "system",
             "over", "gets", "hits", "rate", "hot hits", "rate", "peak MiB", "per GiB", "ns/op",
             "cpu ns/op", "MB/s");
  for (const cache_row& row : rows) {
    print_cache_row(row);
  }
  cache_system told = cache_system::atbus;
  for (const cache_row& row : rows) {
    if (!row.is_installed && row.system != told) {
      told = row.system;
      fmt::print("\nTo install {}: {}\n", name_of(told), how_to_install(told));
    }
  }
}

nlohmann::json json_of(const cache_row& row) {
  nlohmann::json json{{"system", name_of(row.system)},
                      {"over", row.over},
                      {"installed", row.is_installed},
                      {"runs", row.runs.size()}};
  if (!row.is_installed) {
    json["install"] = how_to_install(row.system);
  }
  if (row.runs.empty()) {
    return json;
  }
  const auto put = [&](const char* name, auto figure) {
    const spread all = spread_of(row.runs, figure);
    json[name] = all.median;
    if (row.runs.size() > 1) {
      json["min"][name] = all.min;
      json["max"][name] = all.max;
    }
  };
  put("seconds", [](const cache_run& run) { return run.seconds; });
  put("gets", [](const cache_run& run) { return run.clients.gets; });
  put("hits", [](const cache_run& run) { return run.clients.hits; });
  put("hit_percent", [](const cache_run& run) { return run.hit_percent(); });
  put("hot_gets", [](const cache_run& run) { return run.clients.hot_gets; });
  put("hot_hits", [](const cache_run& run) { return run.clients.hot_hits; });
  put("hot_hit_percent", [](const cache_run& run) { return run.hot_hit_percent(); });
  put("sets", [](const cache_run& run) { return run.clients.sets; });
  put("peak_kib", [](const cache_run& run) { return run.server.peak_kib; });
  put("hit_percent_per_gib", [](const cache_run& run) { return run.hit_percent_per_gib(); });
  put("ns_per_operation", [](const cache_run& run) { return run.ns_per_operation(); });
  put("server_cpu_ns_per_operation",
      [](const cache_run& run) { return run.cpu_ns_per_operation(); });
  put("bytes_per_second", [](const cache_run& run) { return run.bytes_per_second(); });
  json["sets_refused"] = row.sum(&cache_client_tally::sets_refused);
  json["failed"] = row.sum(&cache_client_tally::failed);
  json["corrupt"] = row.sum(&cache_client_tally::corrupt);
  return json;
}

nlohmann::json json_of(const cache_options& options, const workload& work,
                       const std::vector<cache_row>& rows) {
  const cache_workload& cache = work.cache;
  nlohmann::json json{{"workload", "cache"},
                      {"memory", cache.memory_bytes},
                      {"mix", options.mix},
                      {"cases", cache.cases},
                      {"gets", cache.gets},
                      {"hot_cases", cache.hot_cases},
                      {"hot_access_percent", options.hot_access_percent},
                      {"seed", cache.seed},
                      {"clients", options.clients},
                      {"in_flight", cache.in_flight},
                      {"huge_pages", cache.huge_pages},
                      {"repeat", options.common.repeat},
                      {"rows", nlohmann::json::array()}};
  if (cache.value_bytes != 0) {
    json["value_size"] = cache.value_bytes;
  }
  for (const cache_row& row : rows) {
    json["rows"].push_back(json_of(row));
  }
  return json;
}

void run(const cache_options& options) {
  const workload work = cache_plan(options);
  std::vector<cache_row> rows = cache_rows(options);
  if (rows.empty()) {
    throw CLI::ValidationError("--over", "shm is for atbus alone; give unix or tcp too");
  }
  json_output output{options.common.json};
  const interrupt_guard guard;
  std::vector<std::string> problems;
  measure_rows(options, work, rows, problems);
  if (!output.takes_stdout()) {
    print_cache_table(options, work, rows);
  }
  conclude(output, json_of(options, work, rows), problems);
}

void add_access_options(CLI::App& command, cache_options& options) {
  add_bytes(command, "--memory", options.memory, "of each server's cache (default: 256M)", 16 * mib,
            32 * 1024 * mib);
  add_bytes(command, "--value-size", options.value_size, "bytes of a value (default: 525312)",
            std::uint64_t{64}, 8 * mib);
  command
      .add_option("--mix", options.mix,
                  "fixed (default): values of --value-size; web: of 100 B to 4 KiB, the logarithm "
                  "uniform")
      ->check(CLI::IsMember({"fixed", "web"}))
      ->type_name("fixed|web");
  add_number(command, "--cases", options.cases,
             "different keys (default: as many as fill four times --memory)", std::uint64_t{2},
             std::uint64_t{1'000'000'000});
  add_number(command, "--gets", options.gets,
             "of all clients together; a miss is followed by a set (default: 4 for each key)",
             std::uint64_t{1}, std::uint64_t{1'000'000'000'000});
  command.add_option("--hot", options.hot_percent, "percent of the keys that are hot")
      ->check(CLI::Range(0.001, 99.999))
      ->capture_default_str();
  command
      .add_option("--hot-access", options.hot_access_percent,
                  "percent of the gets that are of hot keys")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  add_number(command, "--seed", options.seed, "of the accesses: the same for each system",
             std::uint64_t{0}, std::uint64_t{1} << 62)
      ->capture_default_str();
}

void add_system_options(CLI::App& command, cache_options& options) {
  command
      .add_option("--system", options.systems,
                  "which of atbus, memcached and redis (default: all); the latter two are started "
                  "with the same memory, if they are installed")
      ->check(CLI::IsMember({"atbus", "memcached", "redis"}))
      ->delimiter(',')
      ->type_name("NAME,...");
  command
      .add_option("--over", options.over,
                  "shm, unix (sockets only) and tcp (default: all; shm is for atbus alone)")
      ->check(CLI::IsMember({"shm", "unix", "tcp"}))
      ->delimiter(',')
      ->type_name("NAME,...");
  add_number(command, "--clients", options.clients, "asking processes", 1U, 16U)
      ->capture_default_str();
  add_number(command, "--in-flight", options.in_flight,
             "accesses of each client that wait for an answer", 1U, 1024U)
      ->capture_default_str();
  command.add_flag(
      "--huge-pages,!--no-huge-pages", options.huge_pages,
      "ask the kernel for huge pages (default), for atbus alone: memcached has half as "
      "many hits with its option -L, and redis turns them off");
}

}  // namespace

void add_bench_cache(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand(
      "cache", "A cache server under a limit of memory, beside memcached and redis");
  const auto options = std::make_shared<cache_options>();
  add_access_options(*command, *options);
  add_system_options(*command, *options);
  command
      ->add_option("--timeout", options->timeout_seconds, "the longest a run may take, in seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  add_common_options(*command, options->common);
  command->remove_option(command->get_option("--seconds"));  // a run has a number of gets
  command->callback([options] { run(*options); });
}

}  // namespace atbus::bench
