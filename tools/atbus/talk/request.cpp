// `atbus request ADDRESS TYPE [TEXT]`
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "atbus/talk/talk.h"

namespace atbus::tool {
namespace {

struct request_options : client_options {
  std::uint32_t type = 0;
  std::string text;
  trace_option trace;
};

void send_request(const request_options& options) {
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{options.timeout});
  const std::string answer =
      node_client{options}.request(options.type, options.text, timeout, options.trace.context());
  // As it is: another program may read it.
  std::fwrite(answer.data(), 1, answer.size(), stdout);
}

}  // namespace

void add_request(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("request", "Sends a request to a node and prints the response's bytes");
  const auto options = std::make_shared<request_options>();
  command->add_option("ADDRESS", options->address, "where the node listens")->required();
  command->add_option("TYPE", options->type, "number of the request's type")->required();
  command->add_option("TEXT", options->text, "its bytes; none if left out");
  options->trace.add_to(*command);
  options->add_to(*command);
  command->footer(
      "The response is written as it is, without a line feed. `atbus command` is for commands, "
      "which "
      "have names.\n"
      "Example: `atbus request unix:///run/game/match 7 player-17`\n"
      "Exit code: 0 there was a response; 1 there was none (why is on standard error).");
  command->callback([options] { send_request(*options); });
}

}  // namespace atbus::tool
