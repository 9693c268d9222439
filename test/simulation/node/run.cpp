// Runs a scenario.
#include "simulation/node/node_world.h"

namespace atbus::detail {

test::run_result node_world::run() {
  for (std::size_t index = 0; index < plan_.nodes; ++index)
    start(index);
  for (const scenario_event& one : plan_.events)
    net_.at(1s + one.when, [this, one] { happen(one); });
  while (net_.now() < 1s + plan_.faults_end && book_.fault().empty()) {
    net_.run_until(std::min(net_.now() + 250ms, 1s + plan_.faults_end));
    bury_doomed();
    check_memory();
    check_violations();
  }
  if (book_.fault().empty())
    finish();
  unproven_peers_.clear();
  repeating_peers_.clear();
  places_.clear();
  outliving_.clear();
  if (calls_ended_ > calls_)
    book_.fail("a broadcast has ended twice");
  if (commands_ended_ != commands_)
    book_.fail("of " + std::to_string(commands_) + " commands " + std::to_string(commands_ended_) +
               " have ended");
  return {.fault = book_.fault(),
          .messages = book_.accepted_count(),
          .node_time = (net_.now() - 1s) * static_cast<std::int64_t>(plan_.nodes),
          .recovery = recovery_};
}

test::run_result run(const scenario& all, std::ostream* trace) {
  return node_world{all, trace}.run();
}

}  // namespace atbus::detail
