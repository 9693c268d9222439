#include "atbus/nodes/nodes.h"

#include <fmt/format.h>

#include <utility>

#include "atbus/nodes/remote.h"

namespace atbus::tool {

node_reports read_reports(const common_options& options) {
  auto all = list_node_reports(options.directory);
  if (!all)
    fail(all.error().text());
  return std::move(*all);
}

void report_options::add_to(CLI::App& command) {
  common_options::add_to(command);
  command.add_option(
      "--at", at.address,
      "ask the node that listens there, and all that it reaches, not this host's files");
  at.add_to(command);
}

node_reports read_reports(const report_options& options) {
  if (options.at.address.empty())
    return read_reports(static_cast<const common_options&>(options));
  return remote_nodes{options.at}.all();
}

bus_id bus_id_of(const std::string& text) {
  const auto id = bus_id::parse(text);
  if (!id)
    throw CLI::ValidationError("ID", id.error().text());
  return *id;
}

std::string id_of(const node_report_file& file) {
  return file.report.id != bus_id{} ? file.report.id.to_string() : "?";
}

std::string program_of(const node_report& report) {
  return fmt::format("{} {}", report.pid, report.program);
}

void add_nodes(CLI::App& app) {
  add_node_list(app);
  add_node_show(app);
  add_node_top(app);
  add_node_ping(app);
  add_node_trace(app);
  add_node_check(app);
}

}  // namespace atbus::tool
