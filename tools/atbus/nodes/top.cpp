// `atbus top`
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "atbus/format.h"
#include "atbus/nodes/json.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/reports.h"

namespace atbus::tool {
namespace {

struct top_options : report_options {
  double interval = 1;
  bool once = false;
  std::string sort = "id";
  std::string filter;
};

struct top_row {
  const node_report_file* file;
  node_rates rates;
  bool has_rates = false;
};

const node_report_file* find_before(const node_reports& before, const node_report_file& after) {
  const auto found = std::ranges::find(before, after.path, &node_report_file::path);
  return found != before.end() ? &*found : nullptr;
}

bool is_wanted(const node_report_file& file, const std::string& filter) {
  return filter.empty() || file.report.id.to_string().find(filter) != std::string::npos ||
         file.report.program.find(filter) != std::string::npos;
}

struct sort_key {
  const char* name;
  std::function<double(const top_row&)> of;  // the largest comes first
};

const std::vector<sort_key>& sort_keys() {
  static const std::vector<sort_key> all = {
      {"id", nullptr},
      {"received", [](const top_row& row) { return row.rates.received; }},
      {"sent", [](const top_row& row) { return row.rates.sent; }},
      {"lost", [](const top_row& row) { return row.rates.drops; }},
      {"queued",
       [](const top_row& row) { return static_cast<double>(queued_bytes_of(row.file->report)); }},
      {"round-trip", [](const top_row& row) {
         return static_cast<double>(round_trip_of(row.file->report).count());
       }}};
  return all;
}

std::vector<top_row> rows_of(const node_reports& before, const node_reports& after,
                             const top_options& options) {
  std::vector<top_row> rows;
  for (const node_report_file& file : after) {
    if (!is_wanted(file, options.filter) || runs_again(file, after))
      continue;
    top_row row{.file = &file, .rates = {}};
    const node_report_file* const old = find_before(before, file);
    if (old != nullptr) {
      const auto rates = rates_between(old->report, file.report);
      // A node that has not reported meanwhile does nothing.
      row.rates = rates.value_or(node_rates{});
      row.has_rates = static_cast<bool>(file.problem);
    }
    rows.push_back(row);
  }
  const auto key = std::ranges::find_if(
      sort_keys(), [&](const sort_key& one) { return options.sort == one.name; });
  if (key != sort_keys().end() && key->of)
    std::ranges::stable_sort(rows, std::greater<>{}, key->of);
  return rows;
}

std::vector<std::string> cells_of(const top_row& row, std::uint64_t at) {
  const node_report& report = row.file->report;
  if (!row.file->problem)
    return {id_of(*row.file),
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            words_for_life(*row.file, at)};
  const auto rate = [&](double value) { return row.has_rates ? scaled(value) : std::string{"-"}; };
  return {report.id.to_string(),
          program_of(report),
          fmt::format("{}/{}", connected_of(report), report.peers_in_all),
          rate(row.rates.received),
          rate(row.rates.received_bytes),
          rate(row.rates.sent),
          rate(row.rates.sent_bytes),
          rate(row.rates.drops),
          scaled(static_cast<double>(queued_bytes_of(report))),
          duration(round_trip_of(report)),
          duration(report.handling.quantile(0.99)),
          words_for_life(*row.file, at)};
}

// 0: the output is no terminal.
std::size_t terminal_lines() noexcept {
  winsize size{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row
                                                                                    : 0;
}

void print_top(const std::vector<top_row>& rows, bool is_live) {
  const std::uint64_t at = now_since_1970();
  const std::size_t lines = is_live ? terminal_lines() : 0;
  if (lines != 0)
    fmt::print("\x1b[H\x1b[J");
  table out{{{"ID"},
             {"PROCESS"},
             {"PEERS", table::align::right},
             {"IN/s", table::align::right},
             {"B IN/s", table::align::right},
             {"OUT/s", table::align::right},
             {"B OUT/s", table::align::right},
             {"LOST/s", table::align::right},
             {"QUEUED", table::align::right},
             {"RTT", table::align::right},
             {"HANDLING", table::align::right},
             {"STATE"}}};
  constexpr std::size_t other_lines = 3;
  const std::size_t most = lines > other_lines + 1 ? lines - other_lines : rows.size();
  for (std::size_t i = 0; i != std::min(rows.size(), most); ++i)
    out.add(cells_of(rows[i], at));
  out.print();
  if (most < rows.size())
    fmt::print(" and {} more\n", rows.size() - most);
  else if (rows.empty())
    fmt::print(" no nodes\n");
  else if (is_live && lines == 0)
    fmt::print("\n");
  std::fflush(stdout);
}

void print_top_json(const std::vector<top_row>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const top_row& row : rows) {
    auto one = to_json(*row.file);
    one["rates"] = row.has_rates ? to_json(row.rates) : nlohmann::ordered_json(nullptr);
    all.push_back(std::move(one));
  }
  fmt::print("{}\n", all.dump());
  std::fflush(stdout);
}

void run_top(const top_options& options) {
  node_reports before = read_reports(options);
  const bool is_live = !options.once;
  do {
    std::this_thread::sleep_for(std::chrono::duration<double>{options.interval});
    node_reports after = read_reports(options);
    const std::vector<top_row> rows = rows_of(before, after, options);
    if (options.json)
      print_top_json(rows);
    else
      print_top(rows, is_live);
    if (std::ferror(stdout) != 0)
      fail("can't write to standard output");
    before = std::move(after);
  } while (is_live);
}

}  // namespace

void add_node_top(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("top", "What the nodes of this host do, once a second, until Ctrl-C");
  const auto options = std::make_shared<top_options>();
  options->add_to(*command);
  std::vector<std::string> keys;
  for (const sort_key& one : sort_keys())
    keys.emplace_back(one.name);
  command->add_option("--interval", options->interval, "seconds between two looks; default 1")
      ->check(CLI::Range(0.1, 3600.0));
  command->add_flag("--once", options->once, "print one interval and end");
  command->add_option("--sort", options->sort, "what is largest comes first; default: by id")
      ->check(CLI::IsMember(keys));
  command->add_option("--filter", options->filter,
                      "only nodes whose id or program has this in its name");
  command->footer(
      "Messages and payload bytes per second; k, M, G are powers of 1000. LOST as of `atbus ls`. "
      "QUEUED are bytes that wait for other nodes. RTT is the longest round trip to a peer that is "
      "pinged. HANDLING is the time of a message in the node, below which 99 % are.\n"
      "Nodes report four times a second while they work: a shorter interval shows no more.\n"
      "Examples: `atbus top`; `atbus top --once --sort received`; `atbus top --json --interval 5`\n"
      "Exit code: 0; 1 the directory can't be read.");
  command->callback([options] { run_top(*options); });
}

}  // namespace atbus::tool
