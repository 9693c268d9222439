// The receiving worker of `bench shm` and `bench mem`.
#include <chrono>
#include <vector>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/ledger.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

bool senders_are_over(worker& self) noexcept {
  for (std::size_t sender = 1; sender <= self.work().senders; ++sender) {
    if (!self.over(sender)) {
      return false;
    }
  }
  return true;
}

// Polls until all senders are over and nothing is left. Returns when that was.
template <class Handler>
std::int64_t receive_until_over(worker& self, receiver& inbox, const ledger& account,
                                Handler handler) {
  const bool sleeps = self.work().sleep;
  const bool shares_core = self.shares_core();
  std::int64_t end_ns = 0;
  for (;;) {
    const bool stopped = self.stopped();
    // Before the poll: what they published before they were over is there by then.
    const bool over = stopped && senders_are_over(self);
    if (inbox.poll(handler) != 0) {
      self.progress(account.messages());
      end_ns = stopped ? now_ns() : 0;
      continue;
    }
    if (over) {
      return end_ns;
    }
    if (stopped && end_ns == 0) {
      end_ns = now_ns();
    }
    if (sleeps) {
      // Bounded, to notice the end of the run.
      static_cast<void>(inbox.wait(std::chrono::milliseconds{50}));
    } else if (shares_core) {
      sched_yield();
    }
  }
}

template <check_kind Check>
void receive_all(worker& self, receiver& inbox) {
  const workload& work = self.work();
  ledger account{work.lengths(), work.senders};
  if (!self.wait_for_start()) {
    return;
  }
  std::int64_t end_ns = 0;
  const pace plan{work, self.start_ns()};
  if (plan.limited() && Check != check_kind::none) {
    histogram& latency = self.block().latency;
    end_ns = receive_until_over(self, inbox, account, [&](std::span<const std::byte> message) {
      account.take<Check>(message);
      const std::uint64_t word = load_word(message.data());
      const std::int64_t late =
          now_ns() - plan.intended_ns(word >> number_bits, word & number_mask);
      latency.record(static_cast<std::uint64_t>(std::max<std::int64_t>(late, 0)));
    });
  } else {
    end_ns = receive_until_over(self, inbox, account, [&](std::span<const std::byte> message) {
      account.take<Check>(message);
    });
  }

  std::vector<std::uint64_t> sent;
  for (std::size_t sender = 1; sender <= work.senders; ++sender) {
    sent.push_back(self.figures_of(sender).messages);
  }
  const verdict found = account.close(Check, sent);
  self.finish({.messages = found.messages,
               .bytes = found.bytes,
               .lost = found.lost,
               .corrupt = found.corrupt,
               .reordered = found.reordered,
               .end_ns = end_ns});
}

}  // namespace

void receive_from_channel(worker& self) {
  receiver inbox = open_receiver(self.work(), self.work().address.data());
  self.listening();
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self, inbox); });
  if (const error problem = inbox.remove(); !problem) {
    throw failure("remove", problem);
  }
}

}  // namespace atbus::bench
