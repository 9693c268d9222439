// What receivers of channels and of nodes share: until when they receive, and what they report.
#pragma once

#include <sched.h>

#include <chrono>
#include <span>

#include "atbus/bench/ledger.h"
#include "atbus/bench/worker.h"

namespace atbus::bench {

inline bool senders_have_reached(const worker& self, worker_state state) noexcept {
  for (std::size_t sender = 1; sender <= self.work().senders; ++sender) {
    if (!self.reached(sender, state)) {
      return false;
    }
  }
  return true;
}

// Whether, with all senders over, nothing is left that could still come.
inline bool nothing_follows(worker& self, std::uint64_t messages, std::int64_t last_ns) noexcept {
  // What a socket has taken may be on its way for a while after the sender is over; not that long.
  constexpr std::int64_t lost_after_ns = 5 * ns_per_s;
  if (!self.work().stream) {
    return true;
  }
  std::uint64_t sent = 0;
  for (const std::uint64_t count : sent_counts(self.block())) {
    sent += count;
  }
  return messages >= sent || now_ns() - last_ns > lost_after_ns;
}

// Polls until all senders are over and nothing is left. `poll()` says how many messages it has
// handled, `count()` how many were handled in all; `inbox`, a receiver or a node, can wait for
// more. Returns when that was.
template <class Count, class Inbox, class Poll>
std::int64_t receive_all_until_over(worker& self, Count count, Inbox& inbox, Poll poll) {
  const bool sleeps = self.work().sleep;
  const bool shares_core = self.shares_core();
  std::int64_t end_ns = 0;
  for (;;) {
    const bool stopped = self.stopped();
    // Before the poll: what they published before they were over is there by then.
    const bool over = stopped && senders_have_reached(self, worker_state::finished);
    if (poll() != 0) {
      self.progress(count());
      end_ns = stopped ? now_ns() : 0;
      continue;
    }
    if (stopped && end_ns == 0) {
      end_ns = now_ns();
    }
    if (over && nothing_follows(self, count(), end_ns)) {
      return end_ns;
    }
    if (sleeps) {
      // Bounded, to notice the end of the run.
      static_cast<void>(inbox.wait(std::chrono::milliseconds{50}));
    } else if (shares_core) {
      sched_yield();
    }
  }
}

// The same where one thread receives, into `account`.
template <class Inbox, class Poll>
std::int64_t receive_until_over(worker& self, const ledger& account, Inbox& inbox, Poll poll) {
  return receive_all_until_over(
      self, [&account] { return account.messages(); }, inbox, poll);
}

inline worker_figures figures_from(const verdict& found, std::int64_t end_ns) noexcept {
  return {.messages = found.messages,
          .bytes = found.bytes,
          .lost = found.lost,
          .corrupt = found.corrupt,
          .reordered = found.reordered,
          .end_ns = end_ns};
}

// `sent_counts` holds what each connection has sent, once all senders are over.
inline worker_figures figures_from(worker& self, const ledger& account, std::int64_t end_ns) {
  return figures_from(account.close(self.work().check, sent_counts(self.block())), end_ns);
}

// Of a run with one sender, worker 1, which is over.
inline worker_figures figures_from_pair(worker& self, const ledger& account, std::int64_t end_ns) {
  const std::uint64_t sent = self.figures_of(1).messages;
  return figures_from(account.close(self.work().check, {&sent, 1}), end_ns);
}

}  // namespace atbus::bench
