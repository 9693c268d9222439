// Workers of `bench latency`: one message there, one back, over any two addresses.
#include <chrono>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Expects message `number` and no other. False: the run was stopped first.
bool receive_one(worker& self, receiver& inbox, std::uint64_t number, std::uint64_t& wrong) {
  const auto handler = [number, &wrong](std::span<const std::byte> message) {
    wrong += intact(number, message.data(), message.size()) ? 0 : 1;
  };
  while (inbox.poll(handler) == 0) {
    if (self.stopped()) {
      return false;
    }
    if (self.work().sleep) {
      // Bounded, to notice the end of the run.
      static_cast<void>(inbox.wait(std::chrono::milliseconds{50}));
    } else if (self.shares_core()) {
      sched_yield();
    }
  }
  return true;
}

void send_one(sender& out, std::uint64_t number, std::uint64_t length) {
  auto slot = out.claim(length);
  if (!slot) {
    throw std::runtime_error("claim: " + slot.why().text());
  }
  fill(number, slot.bytes().data(), length);
  slot.commit();
}

void remove(receiver& inbox) {
  if (const error problem = inbox.remove(); !problem) {
    throw failure("remove", problem);
  }
}

}  // namespace

void ping_over_channels(worker& self) {
  const workload& work = self.work();
  receiver inbox = open_receiver(work, work.reply_address.data());
  self.listening(inbox.address());
  if (!self.wait_for(1, worker_state::listening)) {
    return;
  }
  sender out = open_sender(work, self.address_of(1));
  const std::uint64_t length = work.lengths().longest();
  histogram& latency = self.block().latency;
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  std::int64_t before = now_ns();
  while (work.round_trips == 0 || figures.messages != work.round_trips) {
    send_one(out, figures.messages, length);
    if (!receive_one(self, inbox, figures.messages, figures.corrupt)) {
      break;
    }
    const std::int64_t after = now_ns();
    latency.record(static_cast<std::uint64_t>(after - before));
    before = after;
    ++figures.messages;
  }
  figures.bytes = figures.messages * length;
  self.finish(figures);
  self.stop_all();
  remove(inbox);
}

void pong_over_channels(worker& self) {
  const workload& work = self.work();
  receiver inbox = open_receiver(work, work.address.data());
  self.listening(inbox.address());
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  sender out = open_sender(work, self.address_of(0));
  const std::uint64_t length = work.lengths().longest();
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  while (receive_one(self, inbox, figures.messages, figures.corrupt)) {
    send_one(out, figures.messages, length);
    ++figures.messages;
  }
  self.finish(figures);
  remove(inbox);
}

}  // namespace atbus::bench
