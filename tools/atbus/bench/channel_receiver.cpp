// The receiving worker of `bench shm`, `bench mem` and `bench stream`.
#include <chrono>
#include <span>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/ledger.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// What a socket has taken may be on its way for a while after the sender is over; not that long.
constexpr std::int64_t lost_after_ns = 5 * ns_per_s;

bool senders_have_reached(const worker& self, worker_state state) noexcept {
  for (std::size_t sender = 1; sender <= self.work().senders; ++sender) {
    if (!self.reached(sender, state)) {
      return false;
    }
  }
  return true;
}

// Messages that each connection has sent, once all senders are over.
std::span<const std::uint64_t> sent_messages(worker& self) noexcept {
  return sent_counts(self.block());
}

// Those who dial are accepted by polling only.
void accept_senders(worker& self, receiver& inbox) {
  while (!self.stopped() && !senders_have_reached(self, worker_state::ready)) {
    inbox.poll([](std::span<const std::byte>) {});
    static_cast<void>(inbox.wait(std::chrono::milliseconds{1}));
  }
}

// Whether, with all senders over, nothing is left that could still come.
bool nothing_follows(worker& self, const ledger& account, std::int64_t last_ns) noexcept {
  if (!self.work().stream) {
    return true;
  }
  std::uint64_t sent = 0;
  for (const std::uint64_t count : sent_messages(self)) {
    sent += count;
  }
  return account.messages() >= sent || now_ns() - last_ns > lost_after_ns;
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
    const bool over = stopped && senders_have_reached(self, worker_state::finished);
    if (inbox.poll(handler) != 0) {
      self.progress(account.messages());
      end_ns = stopped ? now_ns() : 0;
      continue;
    }
    if (stopped && end_ns == 0) {
      end_ns = now_ns();
    }
    if (over && nothing_follows(self, account, end_ns)) {
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

template <check_kind Check>
void receive_all(worker& self, receiver& inbox) {
  const workload& work = self.work();
  ledger account{work.lengths(), work.connections};
  if (work.stream) {
    accept_senders(self, inbox);
  }
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

  const verdict found = account.close(Check, sent_messages(self));
  self.finish({.messages = found.messages,
               .bytes = found.bytes,
               .lost = found.lost,
               .corrupt = found.corrupt,
               .reordered = found.reordered,
               .end_ns = end_ns,
               .socket_buffer = inbox.stats().socket_buffer});
}

}  // namespace

void receive_from_channel(worker& self) {
  receiver inbox = open_receiver(self.work(), self.work().address.data());
  self.listening(inbox.address());
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self, inbox); });
  if (const error problem = inbox.remove(); !problem) {
    throw failure("remove", problem);
  }
}

}  // namespace atbus::bench
