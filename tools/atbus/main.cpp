// The `atbus` command: one binary, a subcommand for each thing to do.
//
// Exit codes: 0 done; 1 it was tried and did not work (the reason is on standard error), or a
// benchmark found lost, corrupt or reordered messages; 2 the command line makes no sense.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "atbus/access.h"
#include "atbus/bench/bench.h"
#include "atbus/bench/worker.h"
#include "atbus/build_settings.hpp"
#include "atbus/command.h"
#include "atbus/completion.h"
#include "atbus/errors.h"
#include "atbus/nodes/nodes.h"
#include "atbus/record/record.h"
#include "atbus/relay/relay.h"
#include "atbus/shm/shm.h"
#include "atbus/subcommands.h"
#include "atbus/talk/talk.h"

namespace {

constexpr int usage_error = 2;

int run(int argc, const char* const* argv) {
  CLI::App app{"atbus: a message bus between processes", "atbus"};
  atbus::tool::require_one_subcommand(app);
  app.set_help_all_flag("--help-all", "help of all subcommands");
  app.set_version_flag("--version", "atbus " + std::string{atbus::build_settings::version});
  atbus::bench::add_bench(app);
  atbus::tool::add_nodes(app);
  atbus::tool::add_talk(app);
  atbus::tool::add_recordings(app);
  atbus::tool::add_relay(app);
  atbus::tool::add_shm(app);
  atbus::tool::add_command(app);
  atbus::tool::add_access(app);
  atbus::tool::add_errors(app);
  atbus::tool::add_completion(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& failure) {
    return failure.get_exit_code();  // the subcommand has said why
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : usage_error;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Workers of a benchmark are this program started anew. They come first, so that what they are
  // measured for holds nothing of the command line's machinery.
  if (atbus::bench::is_worker_call(argc, argv)) {
    return atbus::bench::run_worker_process(argc, argv);
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
}
