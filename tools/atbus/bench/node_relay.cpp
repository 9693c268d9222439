// Workers of runs with nodes in between: the relays, and both ends in one process.
#include "atbus/bench/node_open.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

bool all_ends_have_reached(const worker& self, worker_state state) noexcept {
  for (std::size_t end = 0; end != first_relay(self.work()); ++end) {
    if (!self.reached(end, state)) {
      return false;
    }
  }
  return true;
}

// Polls both until the one has handled so many messages. False: the run was stopped first.
bool poll_both(worker& self, node& one, node& other, const std::uint64_t& handled,
               std::uint64_t wanted) {
  while (handled != wanted) {
    one.poll();
    other.poll();
    if (self.stopped()) {
      return false;
    }
  }
  return true;
}

}  // namespace

void relay_for_nodes(worker& self) {
  const std::size_t relay = self.index() - first_relay(self.work());
  if (relay != 0 && !self.wait_for(self.index() - 1, worker_state::listening)) {
    return;
  }
  node at = open_node(self, 1 + self.work().senders + relay);
  // What has no way yet is not kept: others come when this one has its own parent.
  if (relay != 0 && !reach_parent(self, at)) {
    return;
  }
  listen(self, at, relay_address(self.work(), relay));
  static_cast<void>(
      poll_until(self, at, [&] { return all_ends_have_reached(self, worker_state::ready); }));
  if (!self.wait_for_start()) {
    return;
  }
  while (!self.over(0)) {
    at.poll();
    wait_a_moment(self, at);
  }
  self.finish({});
}

void ping_between_own_nodes(worker& self) {
  const workload& work = self.work();
  const std::uint64_t length = work.lengths().longest();
  worker_figures figures;
  std::uint64_t handled = 0;
  if (!wait_for_relays(self)) {
    return;
  }
  node far = open_node(self, 0);
  node at = open_node(self, 1);
  const bus_id there = node_of_worker(work, 0);
  far.on_message([&](const message& taken) {
    send_one(far, taken.source(), handled, taken.bytes().size());
    far.flush();
  });
  at.on_message([&](const message& answer) {
    figures.corrupt += intact(handled++, answer.bytes().data(), answer.bytes().size()) ? 0 : 1;
  });
  if (work.hops == 0) {
    listen(self, far, work.address.data());
    if (const error problem = at.connect(there, far.addresses().front()); !problem) {
      throw failure("connect", problem);
    }
  }
  const auto is_up = [&](node& one) { return work.hops == 0 || one.parent() != bus_id{}; };
  while (!self.stopped() && !(is_up(at) && is_up(far))) {
    at.poll();
    far.poll();
  }
  // The first one opens the way.
  send_one(at, there, 0, length);
  at.flush();
  if (!poll_both(self, at, far, handled, 1) || !self.wait_for_start()) {
    return;
  }
  ping(self, figures, [&](std::uint64_t number) {
    send_one(at, there, number + 1, length);
    at.flush();
    return poll_both(self, at, far, handled, number + 2);
  });
}

}  // namespace atbus::bench
