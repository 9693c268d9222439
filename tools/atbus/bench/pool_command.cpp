#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atbus/bench/commands.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/options.h"
#include "atbus/bench/pool_process.h"
#include "atbus/bench/report.h"
#include "atbus/bench/statistics.h"

namespace atbus::bench {
namespace {

struct pool_options {
  std::uint32_t repeat = 3;
  double scale = 1;
  std::uint32_t burst = 256;
  pool_touch touch = pool_touch::page;
  std::vector<std::string> tests;  // none: all
  std::string json;
  std::string worker;
};

const char* name_of(pool_test test) noexcept {
  switch (test) {
    case pool_test::small:
      return "24 B";
    case pool_test::large:
      return "85 KiB";
    case pool_test::mixed:
      break;
  }
  return "mixed 1000:1";
}

const std::map<std::string, pool_test>& tests_by_name() {
  static const std::map<std::string, pool_test> names{
      {"small", pool_test::small}, {"large", pool_test::large}, {"mixed", pool_test::mixed}};
  return names;
}

// A line of the table.
struct row {
  pool_test test;
  bool prefault;
  pool_allocator allocator;
  std::vector<pool_figures> runs;
};

struct pool_results {
  std::vector<row> rows;
  std::vector<std::string> missing;
  std::vector<std::string> problems;
};

std::vector<row> planned_rows(const pool_options& options,
                              const std::vector<pool_allocator>& allocators) {
  std::vector<row> rows;
  for (const auto& [name, test] : tests_by_name()) {
    const auto& chosen = options.tests;
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), name) == chosen.end()) {
      continue;
    }
    for (const bool prefault : {false, true}) {
      for (const pool_allocator& allocator : allocators) {
        rows.push_back({test, prefault, allocator, {}});
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const row& left, const row& right) { return left.test < right.test; });
  return rows;
}

void show_progress(std::size_t done, std::size_t all) {
  if (isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "\r{} of {} runs{}", done, all, done == all ? "\r\033[K" : "");
    std::fflush(stderr);
  }
}

void note_problems(const row& one, const pool_figures& figures,
                   std::vector<std::string>& problems) {
  const std::string where = fmt::format("{}, {}", name_of(one.test), one.allocator.name);
  if (figures.operations == 0) {
    problems.push_back(fmt::format("{}: {}", where, figures.obtained.data()));
  }
  if (figures.damaged != 0) {
    problems.push_back(fmt::format("{}: {} pieces were damaged", where, figures.damaged));
  }
  if (figures.refused != 0) {
    problems.push_back(fmt::format("{}: {} pieces were refused", where, figures.refused));
  }
}

// All rows once, then all rows again: what disturbs the machine for a while disturbs them alike.
pool_results measure(const pool_options& options) {
  pool_results results;
  results.rows = planned_rows(options, find_pool_allocators(results.missing));
  const std::size_t all = results.rows.size() * options.repeat;
  std::size_t done = 0;
  for (std::uint32_t round = 0; round != options.repeat; ++round) {
    for (row& one : results.rows) {
      if (interrupted()) {
        return results;
      }
      pool_task task = one.allocator.task_for(one.test, one.prefault);
      task.touch = options.touch;
      task.scale = options.scale;
      task.burst = options.burst;
      std::string problem;
      const auto figures = run_pool_process(one.allocator, task, problem);
      if (figures) {
        note_problems(one, *figures, results.problems);
        one.runs.push_back(*figures);
      } else if (!interrupted()) {
        results.problems.push_back(problem);
      }
      show_progress(++done, all);
    }
  }
  return results;
}

double ns_per_operation(const pool_figures& run) noexcept {
  return run.operations == 0
             ? 0
             : static_cast<double>(run.cpu_ns) / static_cast<double>(run.operations);
}

double per_second(const pool_figures& run) noexcept {
  return run.cpu_ns == 0
             ? 0
             : static_cast<double>(run.operations) * 1e9 / static_cast<double>(run.cpu_ns);
}

void print_header(const row& first) {
  fmt::print("\n{}, {}\n", name_of(first.test),
             first.prefault ? "memory in place beforehand" : "memory in place at first use");
  fmt::print(" {:<17}{:>8}{:>17}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}{:>12}{:>14}\n", "allocator",
             "ns/op", "min-max", "M op/s", "time s", "pause us", "rss MiB", "user s", "sys s",
             "page-faults", "page-reclaims");
}

void print_row(const row& one) {
  const auto& runs = one.runs;
  const spread ns = spread_of(runs, ns_per_operation);
  const auto median = [&](auto figure) { return spread_of(runs, figure).median; };
  fmt::print(
      " {:<17}{:>8.2f}{:>17}{:>9.1f}{:>9.3f}{:>10.1f}{:>9.1f}{:>8.3f}{:>8.3f}{:>12.0f}{:>14.0f}\n",
      one.allocator.name, ns.median, fmt::format("{:.2f}-{:.2f}", ns.min, ns.max),
      median(per_second) / 1e6, median([](const pool_figures& f) { return f.elapsed_ns; }) / 1e9,
      median([](const pool_figures& f) { return f.longest_pause_ns; }) / 1e3,
      median([](const pool_figures& f) { return f.max_rss_kib; }) / 1024,
      median([](const pool_figures& f) { return f.user_ns; }) / 1e9,
      median([](const pool_figures& f) { return f.system_ns; }) / 1e9,
      median([](const pool_figures& f) { return f.major_faults; }),
      median([](const pool_figures& f) { return f.minor_faults; }));
}

void print_table(const pool_results& results, const pool_options& options) {
  fmt::print(
      "A table of pieces; bursts of them, from random places, are given back and taken anew. "
      "Every\n"
      "piece is written and checked. An operation is one allocate or deallocate; ns/op and op/s\n"
      "count processor time. Medians of {}; time, user, sys and faults are of the timed pass,\n"
      "pause is the longest single call of a second pass, rss the most the process ever had.\n",
      options.repeat == 1 ? "1 run" : fmt::format("{} runs", options.repeat));
  const row* before = nullptr;
  std::map<std::string, std::string> obtained;
  for (const row& one : results.rows) {
    if (one.runs.empty()) {
      continue;
    }
    if (before == nullptr || before->test != one.test || before->prefault != one.prefault) {
      print_header(one);
    }
    before = &one;
    print_row(one);
    if (one.allocator.huge_pages) {
      obtained[fmt::format("{}{}", name_of(one.test), one.prefault ? ", prefault" : "")] =
          one.runs.front().obtained.data();
    }
  }
  for (const std::string& name : results.missing) {
    fmt::print("\n{} is not installed here: missing from the table\n", name);
  }
  if (!obtained.empty()) {
    fmt::print("\nHuge pages, obtained:\n");
  }
  for (const auto& [where, what] : obtained) {
    fmt::print(" {:<24}{}\n", where, what);
  }
}

nlohmann::json json_of(const spread& of, std::size_t runs) {
  if (runs < 2) {
    return of.median;
  }
  return {{"median", of.median}, {"min", of.min}, {"max", of.max}};
}

nlohmann::json json_of(const row& one) {
  nlohmann::json json{{"test", name_of(one.test)},
                      {"allocator", one.allocator.name},
                      {"prefault", one.prefault},
                      {"runs", one.runs.size()}};
  if (one.runs.empty()) {
    return json;
  }
  const auto put = [&](const char* key, auto figure) {
    json[key] = json_of(spread_of(one.runs, figure), one.runs.size());
  };
  json["operations"] = one.runs.front().operations;
  put("ns_per_operation", ns_per_operation);
  put("operations_per_second", per_second);
  put("time_s", [](const pool_figures& f) { return static_cast<double>(f.elapsed_ns) / 1e9; });
  put("longest_pause_us",
      [](const pool_figures& f) { return static_cast<double>(f.longest_pause_ns) / 1e3; });
  put("max_rss_kib", [](const pool_figures& f) { return f.max_rss_kib; });
  put("user_s", [](const pool_figures& f) { return static_cast<double>(f.user_ns) / 1e9; });
  put("sys_s", [](const pool_figures& f) { return static_cast<double>(f.system_ns) / 1e9; });
  put("page_faults", [](const pool_figures& f) { return f.major_faults; });
  put("page_reclaims", [](const pool_figures& f) { return f.minor_faults; });
  if (one.allocator.is_pool) {
    json["obtained"] = one.runs.front().obtained.data();
  } else {
    json["library"] = one.runs.front().library.data();
  }
  return json;
}

nlohmann::json json_of(const pool_results& results, const pool_options& options) {
  nlohmann::json rows = nlohmann::json::array();
  for (const row& one : results.rows) {
    rows.push_back(json_of(one));
  }
  return {{"workload", "pool"},      {"repeat", options.repeat},
          {"burst", options.burst},  {"touch", options.touch == pool_touch::all ? "all" : "page"},
          {"rows", std::move(rows)}, {"missing", results.missing}};
}

// In a process of its own: the figures to standard output, as they are.
void run_worker(const std::string& argument) {
  const auto task = from_argument(argument);
  if (!task) {
    throw CLI::ValidationError(pool_worker_option, "for this program's own use");
  }
  const pool_figures figures = run_pool_task(*task);
  if (std::fwrite(&figures, sizeof figures, 1, stdout) != 1 || std::fflush(stdout) != 0) {
    throw CLI::RuntimeError(1);
  }
}

void run(const pool_options& options) {
  if (!options.worker.empty()) {
    return run_worker(options.worker);
  }
  json_output output{options.json};
  const interrupt_guard guard;
  const pool_results results = measure(options);
  if (!output.takes_stdout()) {
    print_table(results, options);
  }
  conclude(output, json_of(results, options), results.problems);
}

}  // namespace

void add_bench_pool(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand(
      "pool",
      "The static pool against malloc, jemalloc, mimalloc and tcmalloc, with and without memory "
      "put in place beforehand");
  const auto options = std::make_shared<pool_options>();
  command
      ->add_option("-n,--repeat", options->repeat,
                   "runs of each; the median counts, the smallest and largest are shown")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const auto& [name, test] : tests_by_name()) {
    names.push_back(name);
  }
  command
      ->add_option("--test", options->tests,
                   "small: 24 B, large: 85 KiB, mixed: both 1000:1 (default: all three)")
      ->check(CLI::IsMember(names))
      ->delimiter(',');
  static const std::map<std::string, pool_touch> touches{{"page", pool_touch::page},
                                                         {"all", pool_touch::all}};
  command
      ->add_option("--touch", options->touch,
                   "of a large piece: page, a line in each (default), or all of it")
      ->transform(CLI::CheckedTransformer(touches, CLI::ignore_case).description(""))
      ->type_name("page|all");
  command
      ->add_option("--burst", options->burst,
                   "pieces given back and taken anew at once, at most; of 85 KiB 32 at most")
      ->check(CLI::Range(1U, 65536U))
      ->capture_default_str();
  command->add_option("--scale", options->scale, "times as many operations")
      ->check(CLI::Range(0.001, 1000.0))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->add_option(pool_worker_option, options->worker)->group("");
  command->callback([options] { run(*options); });
}

}  // namespace atbus::bench
