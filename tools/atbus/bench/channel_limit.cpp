#include "atbus/bench/channel_limit.h"

#include <fmt/format.h>

#include "atbus/bench/interrupt.h"
#include "atbus/bench/machine_state.h"
#include "atbus/bench/report.h"

namespace atbus::bench {

run_outcome run_throughput(const workload& work, task receiver, task sender,
                           const std::vector<int>& cpus) {
  std::vector<task> tasks(1 + work.senders, sender);
  tasks.front() = receiver;  // or one more that sends, if all do
  tasks.resize(tasks.size() + work.hops, task::node_relay);
  return run_workers(work, tasks,
                     {.cpus = cpus,
                      .threads = work.in_process(),
                      .label = fmt::format("{}  {}", length_text(work), sender_text(work)),
                      .arena_bytes = sent_counts_bytes(work)});
}

void channel_limit::measure(const workload& work, const std::vector<int>& cpus) {
  if (!interrupted()) {
    series_.add(run_throughput(work, task::channel_receiver, task::channel_sender, cpus));
  }
}

std::unique_ptr<yardstick> channel_limit::of_rounds(const std::vector<std::size_t>& rounds) const {
  auto made = std::make_unique<channel_limit>();
  made->series_ = select(series_, rounds);
  return made;
}

}  // namespace atbus::bench
