#include "atbus/command.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "atbus/node_client.h"

namespace atbus::tool {
namespace {

struct command_options : client_options {
  std::vector<std::string> words;
};

}  // namespace

void add_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "command", "Asks a node for something and prints its reply, a value a line");
  const auto of = std::make_shared<command_options>();
  command->add_option("ADDRESS", of->address, "where the node listens")->required();
  command
      ->add_option("NAME", of->words,
                   "the command and its arguments; after -- if one begins with -")
      ->required();
  of->add_to(*command);
  command->callback([of] {
    for (const std::string& value : node_client{*of}.ask(of->words))
      fmt::print("{}\n", value);
  });
}

}  // namespace atbus::tool
