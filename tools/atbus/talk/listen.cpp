// `atbus listen ADDRESS`
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "atbus/talk/talk.h"

namespace atbus::tool {
namespace {

struct listen_options : own_node_options {
  std::uint64_t count = 0;
  bool raw = false;
};

void print_message(const message& one, bool raw) {
  if (raw)
    std::fwrite(one.bytes().data(), 1, one.bytes().size(), stdout);
  else
    fmt::print("{} {} {}{}{}\n", one.source().to_string(), one.type(), shown(one.bytes()),
               one.redelivered() ? " (redelivered)" : "", words_for_trace(one.trace()));
  std::fflush(stdout);
}

void listen(const listen_options& options) {
  node own{options.own_id(), to_node_options(options)};
  const std::string where = listen_at(own, options.address);
  until_signalled running{own};
  std::uint64_t seen = 0;
  own.on_message([&](const message& one) {
    print_message(one, options.raw);
    if (++seen == options.count)
      running.stop();
  });
  fmt::print(stderr, "node {} listens at {}\n", own.id().to_string(), where);
  running.run();
  (void)own.shutdown(std::chrono::seconds{1});
}

}  // namespace

void add_listen(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("listen", "A node that prints what it receives, until Ctrl-C");
  const auto options = std::make_shared<listen_options>();
  command->add_option("ADDRESS", options->address, "where to listen")->required();
  command->add_option("--count", options->count, "end after so many; default: never");
  command->add_flag("--raw", options->raw, "only the bytes, as they are");
  options->add_to(*command);
  command->footer(
      "Prints a line for each message: its source, its type, and its bytes, those that are not "
      "printable as \\xNN.\n"
      "Example: `atbus listen shm://inbox --id 0x99 --count 1`\n"
      "Exit code: 0; 1 it can't listen there.");
  command->callback([options] { listen(*options); });
}

}  // namespace atbus::tool
