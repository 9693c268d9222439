// The receiving worker of `bench shm`, `bench mem` and `bench stream`.
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Those who dial are accepted by polling only.
void accept_senders(worker& self, std::span<receiver> inboxes) {
  while (!self.stopped() && !senders_have_reached(self, worker_state::ready)) {
    for (receiver& each : inboxes) {
      each.poll([](std::span<const std::byte>) {});
    }
    static_cast<void>(inboxes.front().wait(std::chrono::milliseconds{1}));
  }
}

template <check_kind Check>
void receive_all(worker& self, receiver& inbox) {
  const workload& work = self.work();
  ledger account{work.lengths(), work.connections};
  if (work.stream) {
    accept_senders(self, {&inbox, 1});
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

// What one thread of several has received so far, alone in its cache lines.
struct alignas(128) shard_count {
  std::atomic<std::uint64_t> messages{0};
};

template <check_kind Check>
void receive_with_threads(worker& self, std::vector<receiver>& shards) {
  const workload& work = self.work();
  if (work.stream) {
    accept_senders(self, shards);
  }
  if (!self.wait_for_start()) {
    return;
  }
  std::vector<ledger> accounts(shards.size(), ledger{work.lengths(), work.connections});
  std::vector<shard_count> counts(shards.size());
  std::vector<std::int64_t> ends(shards.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != shards.size(); ++i) {
    threads.emplace_back([&, i] {
      ledger& account = accounts[i];
      const auto count = [&] {
        counts[i].messages.store(account.messages(), std::memory_order_relaxed);
        std::uint64_t all = 0;
        for (const shard_count& each : counts) {
          all += each.messages.load(std::memory_order_relaxed);
        }
        return all;
      };
      ends[i] = receive_all_until_over(self, count, shards[i], [&] {
        return shards[i].poll(
            [&](std::span<const std::byte> message) { account.take<Check>(message); });
      });
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  for (std::size_t i = 1; i != accounts.size(); ++i) {
    accounts[0].add(accounts[i]);
  }
  worker_figures figures =
      figures_from(self, accounts[0], *std::max_element(ends.begin(), ends.end()));
  figures.socket_buffer = shards[0].stats().socket_buffer;
  self.finish(figures);
}

}  // namespace

void receive_from_channel(worker& self) {
  if (self.work().receivers > 1) {
    std::vector<receiver> shards = open_shards(self.work(), self.work().address.data());
    self.listening(shards.front().address());
    with_check(self.work().check,
               [&]<check_kind Check>() { receive_with_threads<Check>(self, shards); });
    for (receiver& each : shards) {
      remove(each);
    }
    return;
  }
  receiver inbox = open_receiver(self.work(), self.work().address.data());
  self.listening(inbox.address());
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self, inbox); });
  remove(inbox);
}

}  // namespace atbus::bench
