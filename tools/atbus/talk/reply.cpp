// `atbus reply ADDRESS TYPE [TEXT]`
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "atbus/talk/talk.h"

namespace atbus::tool {
namespace {

struct reply_options : own_node_options {
  std::uint32_t type = 0;
  std::string text;
  bool echo = false;
  std::uint64_t count = 0;
};

void reply(const reply_options& options) {
  node own{options.own_id(), to_node_options(options)};
  const std::string where = listen_at(own, options.address);
  until_signalled running{own};
  std::uint64_t seen = 0;
  own.on_request(options.type, [&](request& asked) {
    fmt::print("{} {}{}\n", asked.source().to_string(), shown(asked.bytes()),
               words_for_trace(asked.trace()));
    std::fflush(stdout);
    (void)(options.echo ? asked.reply(asked.bytes()) : asked.reply(options.text));
    if (++seen == options.count)
      running.stop();
  });
  fmt::print(stderr, "node {} answers requests of type {} at {}\n", own.id().to_string(),
             options.type, where);
  running.run();
  (void)own.shutdown(std::chrono::seconds{1});
}

}  // namespace

void add_reply(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "reply", "A node that answers requests, until Ctrl-C: for tests of others");
  const auto options = std::make_shared<reply_options>();
  command->add_option("ADDRESS", options->address, "where to listen")->required();
  command->add_option("TYPE", options->type, "number of the requests' type")->required();
  command->add_option("TEXT", options->text, "the bytes of each response; none if left out");
  command->add_flag("--echo", options->echo, "respond with the bytes of the request");
  command->add_option("--count", options->count, "end after so many; default: never");
  options->add_to(*command);
  command->footer(
      "Prints a line for each request: who asks, and its bytes, those that are not printable as "
      "\\xNN.\n"
      "Example: `atbus reply unix:///tmp/echo 7 --echo`, and elsewhere `atbus request "
      "unix:///tmp/echo 7 hello`\n"
      "Exit code: 0; 1 it can't listen there.");
  command->callback([options] { reply(*options); });
}

}  // namespace atbus::tool
