// A node of this host, as `atbus tap` and `record` name it: by its id, or by an address.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "atbus/bus_id.hpp"
#include "atbus/node_client.h"

namespace atbus::tool {

// Seconds: what does not answer by then is stopped, or far too busy to be looked at.
inline constexpr double local_timeout = 0.8;

struct local_node_options : client_options {
  std::string id;
  std::string directory = "/dev/shm";

  local_node_options() { timeout = local_timeout; }
  // `--at`, `--directory`, `--token-file` and `--timeout`.
  void add_to(CLI::App& command);
};

// Where a node of this host listens, from its report. Throws std::runtime_error: there is none, or it is dead.
[[nodiscard]] std::string address_of(bus_id id, const std::string& directory);
// With an address: that of `--at`, or of the report.
[[nodiscard]] client_options client_of(const local_node_options& options);

}  // namespace atbus::tool
