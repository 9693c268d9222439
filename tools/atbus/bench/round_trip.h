// What all round trips of two workers share: one message there, one back, and the time of both.
#pragma once

#include <sched.h>

#include <chrono>

#include "atbus/bench/clock.h"
#include "atbus/bench/worker.h"

namespace atbus::bench {

// Makes and times round trips until the run is stopped or has made as many as it asks for; one at least:
// a run that begins late on a busy machine still has a figure. False: `exchange(number)` has failed.
template <class Exchange>
bool time_round_trips(worker& self, worker_figures& figures, Exchange&& exchange) {
  const std::uint64_t most = self.work().round_trips;  // 0 is no limit
  histogram& latency = self.block().latency;
  std::int64_t before = now_ns();
  do {
    if (!exchange(figures.messages)) {
      return false;
    }
    const std::int64_t after = now_ns();
    latency.record(static_cast<std::uint64_t>(after - before));
    before = after;
    ++figures.messages;
  } while (!self.stopped() && figures.messages != most);
  return true;
}

// All of the asking worker, from the start on. `exchange` counts wrong answers in `figures`.
template <class Exchange>
void ping(worker& self, worker_figures& figures, Exchange&& exchange) {
  static_cast<void>(time_round_trips(self, figures, exchange));
  figures.bytes = figures.messages * self.work().lengths().longest();
  self.finish(figures);
  self.stop_all();
}

// An end has `bool send(number)` and `bool receive(number, wrong)`, which counts in `wrong` what is not
// that message. Both say false when the run is over.
template <class End>
void ping_through(worker& self, End& end) {
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  ping(self, figures, [&](std::uint64_t number) {
    return end.send(number) && end.receive(number, figures.corrupt);
  });
}

template <class End>
void pong_through(worker& self, End& end) {
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  while (end.receive(figures.messages, figures.corrupt) && end.send(figures.messages)) {
    ++figures.messages;
  }
  self.finish(figures);
}

// Looks until something has come. False: the run was stopped first.
template <class Look>
bool look_until_stopped(worker& self, Look&& has_come) {
  while (!has_come()) {
    if (self.stopped()) {
      return false;
    }
    if (self.shares_core()) {
      sched_yield();
    }
  }
  return true;
}

// What a receiver or a node does when it has found nothing.
template <class Inbox>
void wait_a_moment(worker& self, Inbox& inbox) {
  if (self.work().sleep) {
    // Bounded, to notice the end of the run.
    static_cast<void>(inbox.wait(std::chrono::milliseconds{50}));
  } else if (self.shares_core()) {
    sched_yield();
  }
}

// The same with a receiver or a node, which may sleep.
template <class Inbox, class Look>
bool look_until_stopped(worker& self, Inbox& inbox, Look&& has_come) {
  while (!has_come()) {
    if (self.stopped()) {
      return false;
    }
    wait_a_moment(self, inbox);
  }
  return true;
}

}  // namespace atbus::bench
