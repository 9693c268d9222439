#include "atbus/record/local_node.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/reports.h"

namespace atbus::tool {
namespace {

// A node that has just begun to listen says so in its next report, 250 ms after the one before.
constexpr std::chrono::nanoseconds first_report_takes = std::chrono::milliseconds{500};

// Those that need no token first.
int distance_of(const std::string& address) {
  if (address.starts_with("unix://") || address.starts_with("shm://"))
    return 0;
  return address.starts_with("mem://") ? 2 : 1;
}

node_report living_report(bus_id id, const std::string& directory) {
  common_options where;
  where.directory = directory;
  node_reports found = read_reports(where);
  std::erase_if(
      found, [&](const node_report_file& file) { return !file.problem || file.report.id != id; });
  if (found.empty())
    throw std::runtime_error("no node " + id.to_string() + " reports in " + directory +
                             ": `atbus ls` lists those that do; --at names the address of another");
  std::erase_if(found, [](const node_report_file& file) { return !file.alive; });
  if (found.empty())
    throw std::runtime_error("node " + id.to_string() + " is dead: its process has ended");
  return std::move(found.front().report);
}

}  // namespace

void local_node_options::add_to(CLI::App& command) {
  client_options::add_to(command);
  command.add_option("--at", address, "where it listens; default: as its report says");
  command.add_option("--directory", directory, "of the reports; default: /dev/shm");
}

std::string address_of(bus_id id, const std::string& directory) {
  const std::chrono::nanoseconds end = now() + first_report_takes;
  while (true) {
    const node_report report = living_report(id, directory);
    const auto nearest = std::ranges::min_element(report.addresses, {}, distance_of);
    if (nearest != report.addresses.end() && distance_of(*nearest) != 2)
      return *nearest;
    if (now() > end)
      throw std::runtime_error("node " + id.to_string() +
                               " listens at no address that another process could reach");
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
}

client_options client_of(const local_node_options& options) {
  client_options found = options;
  if (found.address.empty() && options.id.empty())
    throw CLI::ValidationError("ID", "either the id of a node or --at ADDRESS is needed");
  if (found.address.empty())
    found.address = address_of(bus_id_of(options.id), options.directory);
  return found;
}

}  // namespace atbus::tool
