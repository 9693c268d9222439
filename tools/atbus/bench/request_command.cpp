#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bench/commands.h"
#include "atbus/bench/delay_range.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/request_body.h"
#include "atbus/bench/request_figures.h"

namespace atbus::bench {
namespace {

struct request_options {
  common_options common{.seconds = 2, .repeat = 1, .json = {}, .cpus = {}};
  std::string over = "shm";
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> reply_size;
  std::optional<std::uint32_t> in_flight;
  std::optional<std::string> delay;
  std::vector<std::uint64_t> memory;
  double timeout_seconds = 5;
  std::uint32_t clients = 1;
  bool sleep = true;
  workload work;
};

struct request_results {
  std::vector<request_series> rows;
  std::vector<std::string> problems;
};

std::string address_for(const std::string& over) {
  const std::string name = "bench-" + std::to_string(getpid());
  return over == "tcp"    ? "ipv4://127.0.0.1:0"
         : over == "unix" ? "unix://@" + name + "?shm=false"
                          : "shm://" + name;
}

void plan_fan_out(const request_options& options, request_workload& requests) {
  if (requests.fan_out == 0 && options.delay) {
    throw CLI::ValidationError("--delay", "is of the tasks of a request; it needs --fan-out");
  }
  if (requests.fan_out != 0 && options.reply_size) {
    throw CLI::ValidationError("--reply-size",
                               "with --fan-out the reply is what was asked, encoded again");
  }
  if (requests.fan_out == 0) {
    return;
  }
  const std::string text = options.delay.value_or("50..100ms");
  const auto delay = parse_delay_range(text);
  if (!delay) {
    throw CLI::ValidationError(
        "--delay", "\"" + text + "\" is no range of times up to 10 s, such as 50..100ms");
  }
  requests.delay_min_ns = delay->min_ns;
  requests.delay_max_ns = delay->max_ns;
}

// Completes the workload from the options; refuses what can't be measured.
workload plan(const request_options& options) {
  workload work = options.work;
  request_workload& requests = work.requests;
  work.duration_ns = options.common.duration_ns();
  work.unit_size = 0;
  work.sleep = options.sleep;
  work.senders = work.connections = options.clients;
  work.growing_buffer = true;  // as the library's
  plan_fan_out(options, requests);
  const std::uint64_t least = requests.fan_out != 0 ? request_body::shortest : 8;
  work.size = options.size.value_or(requests.fan_out != 0 ? 256 : 64);
  if (work.size < least) {
    throw CLI::ValidationError(
        "--size", fmt::format("a body needs {} bytes at least{}", least,
                              requests.fan_out != 0 ? ": it is JSON" : ", for its number"));
  }
  requests.reply_size = requests.fan_out != 0 ? work.size : options.reply_size.value_or(work.size);
  constexpr std::uint32_t usual = 64;
  constexpr std::uint32_t usual_when_paced = 16 * 1024;
  requests.in_flight = options.in_flight.value_or(work.rate != 0 ? usual_when_paced : usual);
  requests.timeout_ns = static_cast<std::int64_t>(options.timeout_seconds * 1e9);
  if (requests.timeout_ns <= requests.delay_max_ns) {
    throw CLI::ValidationError("--timeout", "must be longer than the longest --delay");
  }
  set_channel_address("--over", address_for(options.over), work.address);
  work.stream = options.over != "shm";
  return work;
}

void measure_once(const request_options& options, const workload& work, request_series& row,
                  std::vector<std::string>& problems) {
  std::vector<task> tasks(1 + options.clients, task::request_client);
  tasks.front() = task::request_service;
  request_run run;
  const run_outcome outcome =
      run_workers(work, tasks,
                  {.cpus = options.common.chosen_cpus(),
                   .label = "requests, " + row.memory_text(),
                   .arena_bytes = request_tally_bytes(options.clients),
                   .read_arena = [&run](control_block& block) { run = read_request_run(block); }});
  remove_all_leftovers(work);
  const std::string where = row.memory_bytes == request_workload::no_limit
                                ? std::string{}
                                : "with " + row.memory_text() + ": ";
  for (const std::string& problem : outcome.problems) {
    problems.push_back(where + problem);
  }
  if (!outcome.problems.empty()) {
    return;
  }
  complete(run, outcome);
  if (run.failures.corrupt != 0) {
    problems.push_back(fmt::format("{}{} bodies were damaged", where, run.failures.corrupt));
  }
  if (run.answered == 0 && !outcome.interrupted) {
    problems.push_back(where + "no request was answered in time");
  }
  row.runs.push_back(run);
}

// All rows once, then all rows again: what disturbs the machine for a while disturbs them alike.
request_results measure(const request_options& options, const workload& work) {
  request_results results;
  for (const std::uint64_t bytes : options.memory) {
    results.rows.push_back({.memory_bytes = bytes, .runs = {}});
  }
  if (results.rows.empty()) {
    results.rows.emplace_back();
  }
  for (std::uint32_t round = 0; round != options.common.repeat; ++round) {
    for (request_series& row : results.rows) {
      if (interrupted()) {
        return results;
      }
      workload of_row = work;
      of_row.requests.memory_bytes = row.memory_bytes;
      measure_once(options, of_row, row, results.problems);
    }
  }
  return results;
}

// As us_text, in the unit that has few digits.
std::string time_text(double microseconds) {
  return microseconds < 9'950
             ? us_text(microseconds)
             : fmt::format("{:.{}f} ms", microseconds / 1e3, microseconds < 99'950 ? 1 : 0);
}

std::string work_text(const request_options& options, const workload& work) {
  const request_workload& requests = work.requests;
  std::string text =
      fmt::format("{} B there, {} B back over {}, ", work.size, requests.reply_size, options.over);
  text += fmt::format("{} client{}, ", options.clients, options.clients == 1 ? "" : "s");
  text += work.rate != 0 ? fmt::format("{} requests per second in all, at most {} in flight each",
                                       work.rate, requests.in_flight)
                         : fmt::format("{} in flight each", requests.in_flight);
  if (requests.fan_out != 0) {
    text +=
        fmt::format(";\neach request is JSON and starts {} tasks that wait {} to {}",
                    requests.fan_out, time_text(static_cast<double>(requests.delay_min_ns) / 1e3),
                    time_text(static_cast<double>(requests.delay_max_ns) / 1e3));
  }
  return text;
}

void print_request_row(const request_series& row) {
  const auto median = [&](auto figure) { return row.of(figure).median; };
  const auto us = [&](double latency_figures::*figure) {
    return time_text(median([figure](const request_run& run) { return run.latency.*figure; }));
  };
  fmt::print(" {:<10}{:>10.0f}{:>10.0f}{:>8.0f}%{:>8.0f}%{:>11.0f}{:>9.1f}{:>10.0f}{:>9}",
             row.memory_text(), median([](const request_run& run) { return run.per_second(); }),
             median([](const request_run& run) { return run.peak_per_second; }),
             median([](const request_run& run) { return run.service_cpu_percent; }),
             median([](const request_run& run) { return run.client_cpu_percent; }),
             median([](const request_run& run) { return run.per_cpu_second(); }),
             median([](const request_run& run) { return run.service_rss_kib; }) / 1024,
             median([](const request_run& run) { return run.per_mib(); }),
             median([](const request_run& run) { return run.in_hand_max; }));
  fmt::print("{:>11}{:>11}{:>11}{:>11}{:>11}\n", us(&latency_figures::p50_us),
             us(&latency_figures::p90_us), us(&latency_figures::p99_us),
             us(&latency_figures::p999_us), us(&latency_figures::max_us));
  if (const std::string failures = failure_text(row.failures()); !failures.empty()) {
    fmt::print(" {:<10}{}\n", "", failures);
  }
}

void print_table(const request_options& options, const workload& work,
                 const request_results& results) {
  fmt::print("{}\n", work_text(options, work));
  fmt::print(
      "Medians of {} run{}. peak: the best tenth of a run. cpu, rss and in hand are the "
      "service's;\n"
      "in hand: the most requests begun and not answered. Times {}.\n\n",
      options.common.repeat, options.common.repeat == 1 ? "" : "s",
      work.rate != 0 ? "are from when a request was due" : "are from the call to the reply");
  fmt::print(" {:<10}{:>10}{:>10}{:>9}{:>9}{:>11}{:>9}{:>10}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}\n",
             "memory", "req/s", "peak", "cpu", "clients", "per cpu s", "rss MiB", "per MiB",
             "in hand", "p50", "p90", "p99", "p99.9", "max");
  for (const request_series& row : results.rows) {
    if (!row.runs.empty()) {
      print_request_row(row);
    }
  }
  if (!options.memory.empty()) {
    fmt::print(
        "\nmemory is a limit that the kernel keeps (RLIMIT_DATA: the heap and other private "
        "memory\n"
        "of the service's process; shared memory is not in it, but in rss). The service takes "
        "what\n"
        "it has memory for; the rest waits with the clients.\n");
  }
}

nlohmann::json json_of(const request_options& options, const workload& work,
                       const request_results& results) {
  const request_workload& requests = work.requests;
  nlohmann::json rows = nlohmann::json::array();
  for (const request_series& row : results.rows) {
    rows.push_back(bench::json_of(row));
  }
  nlohmann::json json{{"workload", "request"},
                      {"over", options.over},
                      {"size", work.size},
                      {"reply_size", requests.reply_size},
                      {"clients", options.clients},
                      {"in_flight", requests.in_flight},
                      {"rate", work.rate},
                      {"fan_out", requests.fan_out},
                      {"timeout_s", options.timeout_seconds},
                      {"sleep", work.sleep},
                      {"repeat", options.common.repeat},
                      {"rows", std::move(rows)}};
  if (requests.fan_out != 0) {
    json["delay_us"] = {{"min", requests.delay_min_ns / 1000},
                        {"max", requests.delay_max_ns / 1000}};
  }
  return json;
}

void run(const request_options& options) {
  const workload work = plan(options);
  json_output output{options.common.json};
  const interrupt_guard guard;
  const request_results results = measure(options, work);
  if (!output.takes_stdout()) {
    print_table(options, work, results);
  }
  conclude(output, json_of(options, work, results), results.problems);
}

void add_load_options(CLI::App& command, request_options& options) {
  add_number(command, "--in-flight", options.in_flight,
             "requests of each client that wait for an answer, at most (default: 64, and 16384 "
             "with --rate)",
             std::uint32_t{1}, static_cast<std::uint32_t>(node_options::requests_limit));
  add_number(command, "--rate", options.work.rate,
             "requests per second of all clients together; each is due at a time of its own, from "
             "which its latency is counted (default: as fast as they are answered)",
             std::uint64_t{1}, std::uint64_t{1'000'000'000}, "R");
  add_number(command, "--clients", options.clients, "asking processes", 1U, 64U)
      ->capture_default_str();
  command.add_option("--timeout", options.timeout_seconds, "how long a request waits, in seconds")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
}

void add_service_options(CLI::App& command, request_options& options) {
  add_number(command, "--fan-out", options.work.requests.fan_out,
             "the body is JSON, which the service decodes; then it starts so many tasks that wait, "
             "and encodes the body again",
             0U, 10'000U)
      ->capture_default_str();
  command
      .add_option("--delay", options.delay,
                  "how long each of them waits, a random time in this range (default: 50..100ms)")
      ->type_name("MIN..MAX");
  command
      .add_option("--memory", options.memory,
                  "limits of the memory of the service's process, each a row: 50M,500M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{8} << 20, std::uint64_t{1} << 40))
      ->delimiter(',')
      ->type_name("BYTES,...");
}

}  // namespace

void add_bench_request(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand(
      "request", "Requests of clients to a service: rate, latency, CPU, and memory under a limit");
  const auto options = std::make_shared<request_options>();
  constexpr std::uint64_t most_body_bytes = std::uint64_t{16} << 20;
  command->add_option("--over", options->over, "shm (default), unix (sockets only) or tcp")
      ->check(CLI::IsMember({"shm", "unix", "tcp"}))
      ->type_name("shm|unix|tcp");
  add_bytes(*command, "--size", options->size,
            "bytes of a request (default: 64, and 256 with --fan-out)", std::uint64_t{8},
            most_body_bytes);
  add_bytes(*command, "--reply-size", options->reply_size, "bytes of a reply (default: as --size)",
            std::uint64_t{8}, most_body_bytes);
  add_load_options(*command, *options);
  add_service_options(*command, *options);
  command->add_flag_function(
      "--sleep,!--poll", [options](std::int64_t sleep) { options->sleep = sleep > 0; },
      "when nothing is there, both sides spin a little and sleep (default), or poll without end");
  add_common_options(*command, options->common);
  command->callback([options] { run(*options); });
}

}  // namespace atbus::bench
