// Nodes that all send to each other; over relays, the one half to the other half and back.
#include <algorithm>
#include <chrono>
#include <vector>

#include "atbus/bench/dispatch.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/sending.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

struct destination {
  std::size_t worker;
  std::uint64_t sent = 0;
};

std::vector<destination> destinations_of(const worker& self) {
  const workload& work = self.work();
  const bool below = is_below_all_relays(work, self.index());
  std::vector<destination> all;
  for (std::size_t other = 0; other != work.nodes; ++other) {
    if (other != self.index() && (work.hops == 0 || is_below_all_relays(work, other) != below)) {
      all.push_back({other});
    }
  }
  return all;
}

// What each has sent to this one.
std::span<std::uint64_t> sent_to(worker& self, std::size_t other) {
  const std::size_t nodes = self.work().nodes;
  return sent_counts(self.block()).subspan(other * nodes, nodes);
}

// Each dials those before it. False: the run was stopped first.
bool connect_to_all(worker& self, node& at) {
  listen(self, at, member_address(self.work(), self.index()));
  for (std::size_t other = 0; other != self.index(); ++other) {
    if (!self.wait_for(other, worker_state::listening)) {
      return false;
    }
    if (const error problem =
            at.connect(node_of_worker(self.work(), other), self.address_of(other));
        !problem) {
      throw failure("connect", problem);
    }
  }
  const auto is_connected = [](const endpoint& one) { return one.connected(); };
  return poll_until(self, at, [&] {
    const auto all = at.endpoints();
    return all.size() + 1 == self.work().nodes && std::ranges::all_of(all, is_connected);
  });
}

// Sends until the run is stopped, in turns to all.
template <check_kind Check, api_kind Api>
void send_to_all(worker& self, node& at, std::vector<destination>& all) {
  const workload& work = self.work();
  const auto count = static_cast<std::uint32_t>(all.size());
  const std::uint32_t batch = messages_a_poll(work);
  const std::uint32_t turn = std::max(batch / count, 1U);
  const std::uint64_t pairs = std::uint64_t{work.nodes} * count;
  message_writer<Check, Api> writer{work.lengths()};
  patience room{self};
  while (!self.stopped()) {
    const std::uint64_t due = due_by_now(self, pairs);
    bool some = false;
    bool refused = false;
    for (destination& to : all) {
      node_target target{at, node_of_worker(work, to.worker)};
      status sent;
      for (std::uint32_t i = 0; i != turn && to.sent < due; ++i) {
        sent = writer.write(target, first_word(self.index(), to.sent));
        if (!sent) {
          require_full(sent);
          refused = true;
          break;
        }
        ++to.sent;
        some = true;
      }
    }
    at.poll();
    if (some) {
      room.reset();
    } else if (refused) {
      node_target whole{at, {}};
      room.wait(whole);
    } else {
      static_cast<void>(at.wait(std::chrono::milliseconds{1}));
    }
  }
}

// Until all that was sent to this one is here. Returns when that was.
std::int64_t receive_the_rest(worker& self, node& at, const ledger& account) {
  constexpr std::int64_t lost_after_ns = 5 * ns_per_s;
  std::int64_t last_ns = now_ns();
  for (;;) {
    bool over = true;
    std::uint64_t expected = 0;
    for (std::size_t other = 0; other != self.work().nodes; ++other) {
      over = over && (self.has_sent_all(other) || self.over(other));
    }
    for (const std::uint64_t count : sent_to(self, self.index())) {
      expected += count;
    }
    if (at.poll() != 0) {
      last_ns = now_ns();
      continue;
    }
    if (over && (account.messages() >= expected || now_ns() - last_ns > lost_after_ns)) {
      return last_ns;
    }
    static_cast<void>(at.wait(std::chrono::milliseconds{1}));
  }
}

// Worker 0 ends last and counts for all.
void wait_for_others(worker& self, node& at, worker_figures& sum) {
  for (std::size_t other = 1; other != self.work().nodes; ++other) {
    while (!self.over(other)) {
      at.poll();
      static_cast<void>(at.wait(std::chrono::milliseconds{1}));
    }
    const worker_figures& theirs = self.figures_of(other);
    sum.messages += theirs.messages;
    sum.bytes += theirs.bytes;
    sum.end_ns = std::max(sum.end_ns, theirs.end_ns);
  }
}

template <check_kind Check, api_kind Api>
void exchange(worker& self, node& at) {
  const workload& work = self.work();
  ledger account{work.lengths(), work.nodes};
  at.on_message([&](const message& taken) {
    account.take<Check>(taken.bytes());
    self.progress(account.messages());
  });
  const bool connected = work.hops == 0 ? connect_to_all(self, at) : reach_parent(self, at);
  if (!connected || !self.wait_for_start()) {
    return;
  }
  std::vector<destination> all = destinations_of(self);
  send_to_all<Check, Api>(self, at, all);
  for (const destination& to : all) {
    sent_to(self, to.worker)[self.index()] = to.sent;
  }
  self.sent_all();
  const std::int64_t end_ns = receive_the_rest(self, at, account);
  worker_figures figures =
      figures_from(account.close(work.check, sent_to(self, self.index())), end_ns);
  if (self.index() == 0) {
    wait_for_others(self, at, figures);
  }
  shut_down(at);
  self.finish(figures);
}

}  // namespace

void exchange_between_nodes(worker& self) {
  if (!wait_for_relays(self)) {
    return;
  }
  node at = open_node(self, self.index());
  with_check_and_api(self.work(),
                     [&]<check_kind Check, api_kind Api>() { exchange<Check, Api>(self, at); });
}

}  // namespace atbus::bench
