// The configuration of `atbus relay`, a TOML file; doc/operations.md has the keys.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/nats.hpp"
#include "atbus/node_options.hpp"
#include "atbus/status.hpp"

namespace atbus::tool {

struct relay_config {
  bus_id id;
  node_options options;  // without tokens
  std::vector<std::string> listen;
  std::vector<std::pair<bus_id, std::string>> connect;
  std::vector<std::string> token_files;  // the first one's is proven
  std::vector<std::string> tokens;       // read from these
  std::chrono::nanoseconds drain = std::chrono::seconds{10};
  bool log_as_json = false;
  std::string http_listen;  // of the status server; empty: there is none
  nats_options nats;        // how to reach NATS servers
  // Each key as it stands in the file, to see what has changed.
  std::map<std::string, std::string> raw;

  // The options with the tokens.
  [[nodiscard]] node_options options_with_tokens() const;
};

// Checks the whole file, and what it names: addresses, files of tokens, options. Errors name the file, and for
// what stands in it line and column. Paths are relative to the file's folder.
[[nodiscard]] result<relay_config> read_relay_config(const std::string& path);
// The same of a text; `path` is for errors and relative paths.
[[nodiscard]] result<relay_config> parse_relay_config(std::string_view text,
                                                      const std::string& path);

// The keys that differ and that a running node can't take over.
[[nodiscard]] std::vector<std::string> keys_that_need_a_restart(const relay_config& before,
                                                                const relay_config& after);

}  // namespace atbus::tool
