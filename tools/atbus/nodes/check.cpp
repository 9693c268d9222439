// `atbus check`: for monitoring.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/format.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/reports.h"

namespace atbus::tool {
namespace {

struct check_options : report_options {
  std::vector<std::string> ids;
  std::optional<std::uint64_t> most_queued;
  std::optional<std::uint64_t> most_lost;
  bool links = false;
};

// What is wrong with a node, a line for each thing.
void find_problems(const node_report_file& file, const check_options& options, std::uint64_t at,
                   std::vector<std::string>& problems) {
  const auto add = [&](const std::string& what) {
    problems.push_back(fmt::format("node {}: {}", id_of(file), what));
  };
  if (life_of(file, at) != node_life::live)
    return add(words_for_life(file, at));
  const node_report& report = file.report;
  if (options.most_lost && drops_of(report.stats) > *options.most_lost)
    add(fmt::format("{} lost", counted(drops_of(report.stats), "message")));
  for (const peer_report& one : report.peers) {
    if (options.most_queued && one.queued_bytes > *options.most_queued)
      add(fmt::format("{} wait for {}", counted(one.queued_bytes, "byte"), one.id.to_string()));
    if (options.links && one.wanted && !is_linked(one))
      add("no link to " + one.id.to_string());
  }
}

void run_check(const check_options& options) {
  const node_reports all = read_reports(options);
  const std::uint64_t at = now_since_1970();
  std::vector<std::string> problems;
  std::size_t checked = 0;
  const auto take = [&](const node_report_file& file) {
    ++checked;
    find_problems(file, options, at, problems);
  };
  for (const node_report_file& file : all) {
    if (options.ids.empty() && !runs_again(file, all))
      take(file);
  }
  for (const std::string& text : options.ids) {
    const bus_id wanted = bus_id_of(text);
    // The newest one.
    const auto found = std::ranges::find_if(
        all.rbegin(), all.rend(), [&](const auto& file) { return file.report.id == wanted; });
    if (found != all.rend())
      take(*found);
    else
      problems.push_back("node " + wanted.to_string() + ": it does not report");
  }
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{{"checked", checked}, {"problems", problems}}.dump(2));
  } else if (problems.empty()) {
    fmt::print(" {} well\n", checked == 1 ? "1 node is" : fmt::format("{} nodes are", checked));
  }
  for (const std::string& one : problems) {
    if (!options.json)
      fmt::print(" {}\n", one);
  }
  if (!problems.empty())
    throw CLI::RuntimeError(1);
}

}  // namespace

void add_node_check(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("check", "Whether nodes are well, as an exit code for monitoring");
  const auto options = std::make_shared<check_options>();
  options->add_to(*command);
  command->add_option("ID", options->ids, "these nodes have to report; default: all that do");
  command->add_option("--max-queued", options->most_queued,
                      "bytes that may wait for a peer; default: any number");
  command->add_option("--max-lost", options->most_lost,
                      "messages that may be lost since the start; default: any number");
  command->add_flag("--links", options->links,
                    "each node that a connect() or the directory names has to be linked");
  command->footer(
      "A node is well if its process lives and has reported within 15 s. Without ID, a file that a "
      "killed node has left is a problem too, until it runs again or the file is removed.\n"
      "Examples: `atbus check 0x2a 0x2b --links`; `atbus check --max-queued 1000000`\n"
      "Exit code: 0 all is well; 1 something is not (a line for each), or can't be read.");
  command->callback([options] { run_check(*options); });
}

}  // namespace atbus::tool
