// `atbus ls`
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "atbus/format.h"
#include "atbus/nodes/json.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/reports.h"

namespace atbus::tool {
namespace {

std::vector<std::string> row_of_node(const node_report_file& file, std::uint64_t at) {
  if (!file.problem)
    return {id_of(file), "-", "-", "-", "-", "-", words_for_life(file, at)};
  const node_report& report = file.report;
  return {report.id.to_string(),
          program_of(report),
          fmt::format("{}/{}", connected_of(report), report.peers_in_all),
          grouped(report.stats.delivered),
          grouped(report.stats.accepted),
          grouped(drops_of(report.stats)),
          words_for_life(file, at)};
}

void list_nodes(const common_options& options) {
  const node_reports all = read_reports(options);
  const std::uint64_t at = now_since_1970();
  if (options.json) {
    auto out = nlohmann::ordered_json::array();
    for (const node_report_file& file : all)
      out.push_back(to_json(file));
    fmt::print("{}\n", out.dump(2));
    return;
  }
  if (all.empty()) {
    fmt::print(" no nodes of this user report in {}\n", options.directory);
    return;
  }
  table rows{{{"ID"},
              {"PROCESS"},
              {"PEERS", table::align::right},
              {"RECEIVED", table::align::right},
              {"SENT", table::align::right},
              {"LOST", table::align::right},
              {"STATE"}}};
  for (const node_report_file& file : all)
    rows.add(row_of_node(file, at));
  rows.print();
}

}  // namespace

void add_node_list(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("ls", "The nodes of this user on this host");
  const auto options = std::make_shared<common_options>();
  options->add_to(*command);
  command->footer(
      "PEERS are those that are connected, of all that the node knows. LOST are messages that were "
      "reported as undelivered, and broadcasts and messages of others that were dropped.\n"
      "The report of a killed node stays in the list, also while the node runs again, until its "
      "file is deleted, or the node is killed again and restarted.\n"
      "Examples: `atbus ls`; `atbus ls --json | jq '.[] | select(.alive | not) | .id'`\n"
      "Exit code: 0; 1 the directory can't be read.");
  command->callback([options] { list_nodes(*options); });
}

}  // namespace atbus::tool
