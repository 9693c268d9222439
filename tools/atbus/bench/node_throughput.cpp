// Workers of `bench node`: nodes that send all they can to one.
#include "atbus/bench/dispatch.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/sending.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

template <check_kind Check, api_kind Api>
std::uint64_t send_all(worker& self, node& from) {
  const std::uint32_t batch = messages_a_poll(self.work());
  const std::uint64_t who = self.index() - 1;
  message_writer<Check, Api> writer{self.work().lengths()};
  node_target target{from, node_of_worker(self.work(), 0)};
  patience room{self};
  std::uint64_t number = 0;
  while (!self.stopped()) {
    status sent;
    const std::uint64_t due = due_by_now(self, self.work().senders);
    for (std::uint32_t i = 0; i != batch && sent && number < due; ++i) {
      sent = writer.write(target, first_word(who, number));
      number += sent ? 1 : 0;
    }
    from.poll();
    if (sent) {
      room.reset();
      if (number >= due) {
        rest(self, from);
      }
      continue;
    }
    require_full(sent);
    room.wait(target);
  }
  return number;
}

template <check_kind Check>
void receive_all(worker& self, node& at) {
  ledger account{self.work().lengths(), self.work().senders};
  at.on_message([&](const message& taken) { account.take<Check>(taken.bytes()); });
  poll_until_ready(self, at);
  if (!self.wait_for_start()) {
    return;
  }
  const std::int64_t end_ns = receive_until_over(self, account, at, [&] { return at.poll(); });
  self.finish(figures_from(self, account, end_ns));
}

}  // namespace

void receive_at_node(worker& self) {
  if (!wait_for_relays(self)) {
    return;
  }
  node at = open_node(self, self.index());
  if (self.work().hops == 0) {
    listen(self, at, self.work().address.data());
  } else if (!reach_parent(self, at)) {
    return;
  }
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self, at); });
}

void send_from_node(worker& self) {
  const std::size_t first = self.work().hops == 0 ? 0 : first_relay(self.work());
  if (!self.wait_for(first, worker_state::listening)) {
    return;
  }
  node from = open_node(self, self.index());
  if (!connect(self, from) || !self.wait_for_start()) {
    return;
  }
  std::uint64_t sent = 0;
  with_check_and_api(self.work(), [&]<check_kind Check, api_kind Api>() {
    sent = send_all<Check, Api>(self, from);
  });
  sent_counts(self.block())[self.index() - 1] = sent;
  shut_down(from);
  self.finish({.messages = sent});
}

}  // namespace atbus::bench
