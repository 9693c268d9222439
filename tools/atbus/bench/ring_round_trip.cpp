// Workers of the bare ring: one message there, one back.
#include <span>

#include "atbus/bench/bare_ring.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

struct ring_pair {
  std::uint64_t capacity;
  std::byte* there;
  std::byte* back;
};

ring_pair rings_of(worker& self) noexcept {
  const std::uint64_t capacity = ring_capacity(self.work());
  std::byte* const arena = self.block().arena();
  return {capacity, arena, arena + ring_arena_bytes(capacity)};
}

// False: the run was stopped before a message came.
bool wait_for_message(worker& self, ring_reader& ring) noexcept {
  while (ring.look() == 0) {
    if (self.stopped()) {
      return false;
    }
    if (self.shares_core()) {
      sched_yield();
    }
  }
  return true;
}

void send_one(ring_writer& ring, std::uint64_t number, std::uint64_t length) noexcept {
  std::byte* const at = ring.claim(length);
  if (at == nullptr) {
    return;  // can't be: at most one message is on its way
  }
  fill(number, at, length);
  ring.publish();
}

// Counts the messages that are not what was expected.
std::uint64_t receive_one(ring_reader& ring, std::uint64_t number) noexcept {
  std::uint64_t wrong = 0;
  ring.drain([&](const std::byte* at, std::uint64_t length) {
    wrong += intact(number, at, length) ? 0 : 1;
  });
  ring.give_back();
  return wrong;
}

}  // namespace

void ping_over_rings(worker& self) {
  const ring_pair rings = rings_of(self);
  ring_writer there{rings.there, rings.capacity};
  ring_reader back{rings.back, rings.capacity};
  const std::uint64_t length = self.work().lengths().longest();
  const std::uint64_t most = self.work().round_trips;
  histogram& latency = self.block().latency;
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  std::int64_t before = now_ns();
  while (most == 0 || figures.messages != most) {
    send_one(there, figures.messages, length);
    if (!wait_for_message(self, back)) {
      break;
    }
    figures.corrupt += receive_one(back, figures.messages);
    const std::int64_t after = now_ns();
    latency.record(static_cast<std::uint64_t>(after - before));
    before = after;
    ++figures.messages;
  }
  figures.bytes = figures.messages * length;
  self.finish(figures);
  self.stop_all();
}

void pong_over_rings(worker& self) {
  const ring_pair rings = rings_of(self);
  ring_reader there{rings.there, rings.capacity};
  ring_writer back{rings.back, rings.capacity};
  const std::uint64_t length = self.work().lengths().longest();
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  while (wait_for_message(self, there)) {
    figures.corrupt += receive_one(there, figures.messages);
    send_one(back, figures.messages, length);
    ++figures.messages;
  }
  self.finish(figures);
}

}  // namespace atbus::bench
