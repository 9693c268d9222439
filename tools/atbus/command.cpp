#include "atbus/command.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "atbus/node.hpp"

namespace atbus::tool {
namespace {

struct command_options {
  std::string address;
  std::string token_file;
  double timeout = 5;  // seconds
  std::vector<std::string> words;
};

std::string read_token(const std::string& path) {
  const auto fail = [&](const std::string& why) -> std::runtime_error {
    return std::runtime_error("--token-file " + path + ": " + why);
  };
  if (std::error_code none; std::filesystem::is_directory(path, none))
    throw fail("it is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw fail("can't read it: " + std::generic_category().message(errno));
  std::string token{std::istreambuf_iterator<char>(file), {}};
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r'))
    token.pop_back();
  return token;
}

// Of an error, and of a status.
std::string sentence(errc code, const std::string& text) {
  return std::string{name(code)} + ": " + text;
}

std::string failure_text(const status& how, const command_reply& reply, const std::string& last) {
  if (!reply.values().empty())
    return sentence(how.code(), fmt::format("{}", fmt::join(reply.values(), " ")));
  return sentence(how.code(), how.text()) + (last.empty() ? "" : "\nbefore that: " + last);
}

// The reply; throws what is in the way of it.
command_reply ask(const command_options& of) {
  node_options options;
  options.drain(std::chrono::seconds{0});  // who was refused waits for nothing
  if (!of.token_file.empty())
    options.token(read_token(of.token_file));
  std::string last_line;
  std::string failed = "the node ended";
  command_reply answer;
  node client{0, options};                     // ends before what its handlers write to
  if (const error bad = client.fault(); !bad)  // nothing else can be wrong with it
    throw std::runtime_error("--token-file " + of.token_file + ": " + bad.text());
  client.on_log([&](std::string_view line) { last_line = line; });
  client.on_endpoint([&](const endpoint&, endpoint_event event) {
    if (event != endpoint_event::refused)
      return;
    const bool for_want_of_a_token =
        of.token_file.empty() && last_line.find("token") != std::string::npos;
    failed = last_line + (for_want_of_a_token ? "\nIs a --token-file needed?" : "");
    client.stop();
  });
  if (const error bad = client.connect(0, of.address); !bad)
    throw std::runtime_error(sentence(bad.code(), bad.text()));
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{of.timeout});
  const status asked =
      client.command(0, of.words, timeout, [&](status how, const command_reply& reply) {
        answer = reply;
        failed = how ? "" : failure_text(how, reply, last_line);
        client.stop();
      });
  if (!asked)
    throw std::runtime_error(sentence(asked.code(), asked.text()));
  (void)client.run();
  if (!failed.empty())
    throw std::runtime_error(failed);
  return answer;
}

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
  command->add_option("--token-file", of->token_file, "what nodes there prove to each other");
  command->add_option("--timeout", of->timeout, "seconds; 5 if left out")
      ->check(CLI::Range(0.001, 1e6));
  command->callback([of] {
    const command_reply reply = ask(*of);
    for (const std::string& value : reply.values())
      fmt::print("{}\n", value);
  });
}

}  // namespace atbus::tool
