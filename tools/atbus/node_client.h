// A client that asks a node at an address, as the subcommands do that have `--token-file`.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atbus/node.hpp"

namespace atbus::tool {

struct client_options {
  std::string address;
  std::string token_file;
  double timeout = 5;  // seconds

  // `--token-file` and `--timeout`.
  void add_to(CLI::App& command);
};

// Of a file, without the line feeds at its end. Throws std::runtime_error with the reason.
std::string read_token(const std::string& path);
// With the token, for a node that says goodbye at once.
node_options to_node_options(const client_options& from);

class node_client {
 public:
  // Throws std::runtime_error with the reason, here and below.
  explicit node_client(const client_options& options);
  node_client(const node_client&) = delete;
  node_client& operator=(const node_client&) = delete;

  // The values of the reply; the first word is the command.
  std::vector<std::string> ask(const std::vector<std::string>& words);
  // The bytes of the response.
  std::string request(std::uint32_t type, const std::string& text, std::chrono::nanoseconds timeout,
                      const std::optional<trace_context>& trace = std::nullopt);
  // Lets that time pass, and keeps the link meanwhile.
  void rest(std::chrono::nanoseconds time);

 private:
  // Until the question has its outcome, or it is clear that nobody is at the address.
  void wait_for_the_end();

  const client_options options_;
  std::string last_line_;
  std::chrono::nanoseconds no_way_since_{0};
  bool is_linked_ = false;
  bool is_over_ = false;
  std::string failed_;
  std::vector<std::string> answer_;
  node client_;  // ends before what its handlers write to
};

}  // namespace atbus::tool
