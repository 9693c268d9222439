// `atbus request`, `reply`, `send` and `listen`: what programs say to each other, from a shell.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "atbus/node.hpp"
#include "atbus/node_client.h"
#include "atbus/stop_signal.h"
#include "atbus/trace_context.hpp"

namespace atbus::tool {

void add_talk(CLI::App& app);
void add_request(CLI::App& app);
void add_reply(CLI::App& app);
void add_send(CLI::App& app);
void add_listen(CLI::App& app);

// A node of its own, for as long as the command runs.
struct own_node_options : client_options {
  std::string id;

  // As those of a client, and `--id`.
  void add_to(CLI::App& command);
  // A random one, where none is given, which no node of a tree has.
  [[nodiscard]] bus_id own_id() const;
};

// As of a client. Reports are made only under an id that was given: nothing would remove that of a random one
// after the command was killed.
node_options to_node_options(const own_node_options& from);

// The trace that a message belongs to: `--traceparent`.
class trace_option {
 public:
  void add_to(CLI::App& command);
  [[nodiscard]] const std::optional<trace_context>& context() const noexcept { return context_; }

 private:
  std::optional<trace_context> context_;
};
// " (trace 00-...)"; empty without one.
std::string words_for_trace(const std::optional<trace_context>& trace);

// Lets the node listen there; returns what others dial. Throws why it can't.
std::string listen_at(node& own, const std::string& address);
// Text as it is; other bytes as \xNN, and a backslash as \\, so that a terminal is safe.
std::string shown(bytes_view bytes);

// Runs a node until Ctrl-C or SIGTERM. One at a time.
class until_signalled {
 public:
  explicit until_signalled(node& which) : node_(which) {}

  void run();
  // From a handler of the node.
  void stop() noexcept { stopped_ = true; }

 private:
  node& node_;
  stop_signal signal_;
  bool stopped_ = false;
};

}  // namespace atbus::tool
