// The sending worker of `bench shm`, `bench mem` and `bench stream`.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/sending.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

constexpr std::int64_t worth_sleeping_ns = 200'000;
constexpr std::int64_t wake_up_early_ns = 100'000;
constexpr std::chrono::seconds longest_flush{8};

// One lane or connection of this worker.
struct outlet {
  sender out;
  std::uint64_t who;         // among those of all senders
  std::uint64_t number = 0;  // of the next message
};

template <class Writer>
void send_freely(worker& self, outlet& only, Writer& writer) {
  patience room{self};
  const std::uint64_t who = only.who;
  std::uint64_t number = 0;
  while (!self.stopped()) {
    const status sent = writer.write(only.out, first_word(who, number));
    if (sent) [[likely]] {
      ++number;
      room.reset();
      continue;
    }
    require_full(sent);
    room.wait(only.out);
  }
  only.number = number;
}

// One batch each, in turns.
template <class Writer>
void send_batches(worker& self, std::vector<outlet>& all, std::uint32_t most, Writer& writer) {
  patience room{self};
  std::size_t refused = 0;  // one after the other
  for (std::size_t turn = 0; !self.stopped();) {
    outlet& one = all[turn];
    turn = turn + 1 == all.size() ? 0 : turn + 1;
    status sent;
    {
      auto batch = one.out.batch();
      std::uint64_t number = one.number;
      for (std::uint32_t i = 0; i != most && sent; ++i) {
        sent = writer.write(batch, first_word(one.who, number));
        number += sent ? 1 : 0;
      }
      one.number = number;
    }
    if (sent) {
      refused = 0;
      room.reset();
      continue;
    }
    require_full(sent);
    // All are full: the one that has been so for longest comes next.
    if (++refused >= all.size()) {
      room.wait(all[turn].out);
    }
  }
}

// False: the run was stopped first.
bool wait_until(worker& self, std::int64_t due_ns) noexcept {
  while (!self.stopped()) {
    const std::int64_t left_ns = due_ns - now_ns();
    if (left_ns <= 0) {
      return true;
    }
    if (left_ns > worth_sleeping_ns) {
      sleep_ns(left_ns - wake_up_early_ns);
    } else {
      relax(self.shares_core());
    }
  }
  return false;
}

// What is due by now leaves together, if a write to the kernel costs more than a message.
template <class Writer>
void send_paced(worker& self, std::vector<outlet>& all, Writer& writer) {
  const pace plan{self.work(), self.start_ns()};
  patience room{self};
  const std::uint32_t most =
      carries_by_socket(self.work()) && all.size() == 1 ? messages_a_write(self.work()) : 1;
  for (std::size_t turn = 0; wait_until(self, plan.intended_ns(all[turn].who, all[turn].number));) {
    outlet& one = all[turn];
    status sent;
    {
      auto batch = one.out.batch();
      std::uint32_t count = 0;
      do {
        sent = writer.write(batch, first_word(one.who, one.number));
        one.number += sent ? 1 : 0;
      } while (sent && ++count != most && plan.intended_ns(one.who, one.number) <= now_ns());
    }
    if (sent) {
      turn = turn + 1 == all.size() ? 0 : turn + 1;
      room.reset();
      continue;
    }
    require_full(sent);
    room.wait(one.out);
  }
}

std::uint32_t batch_of(const workload& work) noexcept {
  if (work.batch != 0 || !carries_by_socket(work)) {
    return std::max(work.batch, 1U);
  }
  return messages_a_write(work);
}

template <check_kind Check, api_kind Api>
void send_all(worker& self, std::vector<outlet>& all) {
  message_writer<Check, Api> writer{self.work().lengths()};
  const std::uint32_t batch = batch_of(self.work());
  if (self.work().rate != 0) {
    send_paced(self, all, writer);
  } else if (batch == 1 && all.size() == 1) {
    send_freely(self, all.front(), writer);
  } else {
    send_batches(self, all, batch, writer);
  }
}

std::vector<outlet> open_outlets(worker& self, const char* address) {
  const workload& work = self.work();
  const std::uint64_t end = work.first_connection(self.index());
  std::vector<outlet> all;
  for (std::uint64_t who = work.first_connection(self.index() - 1); who != end; ++who) {
    all.push_back({open_sender(work, address), who});
  }
  return all;
}

// Messages in a queue of our own end with this process.
void flush(sender& out) {
  if (const status flushed = out.flush(longest_flush); !flushed) {
    throw std::runtime_error("flush: " + std::string{name(flushed.code())} + ": " + flushed.text());
  }
}

}  // namespace

void send_to_channel(worker& self) {
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  const workload& work = self.work();
  const char* const address = self.address_of(0);
  allow_many_descriptors(work);
  // All of them in one process: silence is the same from everywhere.
  std::vector<sender> idle;
  if (self.index() == 1) {
    idle = open_idle_senders(work, address);
  }
  std::vector<outlet> all = open_outlets(self, address);
  if (!self.wait_for_start()) {
    return;
  }
  with_check_and_api(work,
                     [&]<check_kind Check, api_kind Api>() { send_all<Check, Api>(self, all); });
  worker_figures figures;
  for (outlet& one : all) {
    flush(one.out);
    sent_counts(self.block())[one.who] = one.number;
    figures.messages += one.number;
    figures.socket_buffer = one.out.stats().socket_buffer;
  }
  self.finish(figures);
}

}  // namespace atbus::bench
