// The receiving worker of `bench shm`, `bench mem` and `bench stream`.
#include <chrono>
#include <span>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Those who dial are accepted by polling only.
void accept_senders(worker& self, receiver& inbox) {
  while (!self.stopped() && !senders_have_reached(self, worker_state::ready)) {
    inbox.poll([](std::span<const std::byte>) {});
    static_cast<void>(inbox.wait(std::chrono::milliseconds{1}));
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
  const auto receive = [&](auto handler) {
    return receive_until_over(self, account, inbox, [&] { return inbox.poll(handler); });
  };
  std::int64_t end_ns = 0;
  const pace plan{work, self.start_ns()};
  if (plan.limited() && Check != check_kind::none) {
    histogram& latency = self.block().latency;
    end_ns = receive([&](std::span<const std::byte> message) {
      account.take<Check>(message);
      const std::uint64_t word = load_word(message.data());
      const std::int64_t late =
          now_ns() - plan.intended_ns(word >> number_bits, word & number_mask);
      latency.record(static_cast<std::uint64_t>(std::max<std::int64_t>(late, 0)));
    });
  } else {
    end_ns = receive([&](std::span<const std::byte> message) { account.take<Check>(message); });
  }
  worker_figures figures = figures_from(self, account, end_ns);
  figures.socket_buffer = inbox.stats().socket_buffer;
  self.finish(figures);
}

}  // namespace

void receive_from_channel(worker& self) {
  receiver inbox = open_receiver(self.work(), self.work().address.data());
  self.listening(inbox.address());
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self, inbox); });
  remove(inbox);
}

}  // namespace atbus::bench
