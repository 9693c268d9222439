// The nodes of this host, from their reports, and those behind an address: `atbus ls`, `show`, `top`, `ping`,
// `trace` and `check`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "atbus/node_client.h"
#include "atbus/node_report.hpp"
#include "atbus/shm/show.h"

namespace atbus::tool {

void add_nodes(CLI::App& app);
void add_node_list(CLI::App& app);
void add_node_show(CLI::App& app);
void add_node_top(CLI::App& app);
void add_node_ping(CLI::App& app);
void add_node_trace(CLI::App& app);
void add_node_check(CLI::App& app);

using node_reports = std::vector<node_report_file>;

// Where `show` and `top` look: in a directory, or with --at at an address.
struct report_options : common_options {
  client_options at;

  void add_to(CLI::App& command);
};

// Says why if they can't be read, and ends.
node_reports read_reports(const report_options& options);
node_reports read_reports(const common_options& options);
// Of a command line; a text that is none ends the command.
bus_id bus_id_of(const std::string& text);
// Its id; "?" if that is not known.
std::string id_of(const node_report_file& file);
// "4711 gamesvr"
std::string program_of(const node_report& report);

}  // namespace atbus::tool
