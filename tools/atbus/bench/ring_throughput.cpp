// Workers of the bare ring: one sender, one receiver, as fast as they can.
#include <memory>
#include <span>

#include "atbus/bench/bare_ring.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/tasks.h"
#include "atbus/bench/write_message.h"

namespace atbus::bench {
namespace {

// A receiver that found less than this waits and looks again, if it hangs back at all.
constexpr std::uint64_t little_bytes = 512;
constexpr std::int64_t hang_back_ns = 750;

template <check_kind Check, api_kind Api>
std::uint64_t send_all(worker& self) {
  const message_lengths lengths = self.work().lengths();
  ring_writer ring{self.block().arena(), ring_capacity(self.work())};
  const auto own = std::make_unique<std::byte[]>(lengths.longest() + 8);
  const bool shares_core = self.shares_core();
  std::uint64_t number = 0;
  while (!self.stopped()) {
    const std::uint64_t word = first_word(0, number);
    const std::uint64_t length = lengths.of(word);
    if constexpr (Api == api_kind::send) {
      write_message<Check>(word, own.get(), length);
    }
    std::byte* at = ring.claim(length);
    while (at == nullptr)
      [[unlikely]] {
        relax(shares_core);
        if (self.stopped()) {
          return number;
        }
        at = ring.claim(length);
      }
    if constexpr (Api == api_kind::send) {
      copy_message(at, own.get(), length);
    } else {
      write_message<Check>(word, at, length);
    }
    ring.publish();
    ++number;
  }
  return number;
}

void spin_for(std::int64_t ns) noexcept {
  const std::int64_t end = now_ns() + ns;
  while (now_ns() < end) {
  }
}

template <check_kind Check>
void receive_all(worker& self) {
  const message_lengths lengths = self.work().lengths();
  ring_reader ring{self.block().arena(), ring_capacity(self.work())};
  ledger account{lengths, 1};
  const bool hang_back = self.work().hang_back;
  const bool shares_core = self.shares_core();
  if (!self.wait_for_start()) {
    return;
  }
  std::int64_t end_ns = 0;
  for (;;) {
    std::uint64_t waiting = ring.look();
    if (hang_back && waiting < little_bytes) {
      spin_for(hang_back_ns);
      waiting = ring.look();
    }
    if (waiting != 0) {
      ring.drain([&account](const std::byte* at, std::uint64_t length) {
        account.take<Check>({at, length});
      });
      self.progress(account.messages());
      if (self.stopped()) {
        end_ns = now_ns();
      }
      continue;
    }
    ring.give_back();
    if (self.over(1)) {
      if (ring.look() == 0) {
        break;
      }
      continue;
    }
    relax(shares_core);
  }
  self.finish(figures_from_pair(self, account, end_ns));
}

}  // namespace

std::uint64_t ring_capacity(const workload& work) noexcept {
  constexpr std::uint64_t usual = 1 << 20;
  const std::uint64_t wanted = work.lane_size != 0 ? work.lane_size : usual;
  const std::uint64_t needed = 2 * ring_record_bytes(work.lengths().longest());
  return std::bit_ceil(std::max(wanted, needed));
}

void receive_from_ring(worker& self) {
  with_check(self.work().check, [&]<check_kind Check>() { receive_all<Check>(self); });
}

void send_to_ring(worker& self) {
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t sent = 0;
  with_check_and_api(self.work(),
                     [&]<check_kind Check, api_kind Api>() { sent = send_all<Check, Api>(self); });
  self.finish({.messages = sent});
}

}  // namespace atbus::bench
