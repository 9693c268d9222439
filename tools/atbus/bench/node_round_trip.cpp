// Workers of `bench latency --node`: one message there, one back, between two nodes.
#include "atbus/bench/node_open.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Polls until so many messages were handled. False: the run was stopped first.
bool receive_until(worker& self, node& at, const std::uint64_t& handled, std::uint64_t wanted) {
  return look_until_stopped(self, at, [&] {
    while (handled != wanted) {
      if (at.poll() == 0) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace

void ping_over_nodes(worker& self) {
  const workload& work = self.work();
  const std::uint64_t length = work.lengths().longest();
  worker_figures figures;
  std::uint64_t handled = 0;
  node at = open_node(self, self.index());
  at.on_message([&](const message& answer) {
    figures.corrupt += intact(handled++, answer.bytes().data(), answer.bytes().size()) ? 0 : 1;
  });
  listen(self, at, work.address.data());
  poll_until_ready(self, at);
  if (!self.wait_for_start()) {
    return;
  }
  ping(self, figures, [&](std::uint64_t number) {
    send_one(at, node_of_worker(work, 1), number, length);
    at.flush();
    return receive_until(self, at, handled, number + 1);
  });
}

void pong_over_nodes(worker& self) {
  worker_figures figures;
  node at = open_node(self, self.index());
  at.on_message([&](const message& taken) {
    const std::uint64_t number = figures.messages++;
    figures.corrupt += intact(number, taken.bytes().data(), taken.bytes().size()) ? 0 : 1;
    send_one(at, taken.source(), number, taken.bytes().size());
  });
  if (!self.wait_for(0, worker_state::listening) || !connect(self, at) || !self.wait_for_start()) {
    return;
  }
  static_cast<void>(receive_until(self, at, figures.messages, ~std::uint64_t{0}));
  self.finish(figures);
}

}  // namespace atbus::bench
