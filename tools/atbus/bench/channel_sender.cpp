// The sending worker of `bench shm` and `bench mem`.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

constexpr unsigned hasty_retries = 64;
constexpr std::int64_t worth_sleeping_ns = 200'000;
constexpr std::int64_t wake_up_early_ns = 100'000;

// What to do while the lane is full. Alone on its core a sender just tries again. One that shares
// it lets the others run, and when that does not help either, sleeps until there is room.
class patience {
 public:
  patience(const worker& self, sender& out) noexcept
      : out_{out}, shares_core_{self.shares_core()} {}

  void wait() noexcept {
    ++refusals_;
    if (!shares_core_) {
      spin_pause();
    } else if (refusals_ < hasty_retries) {
      sched_yield();
    } else {
      // Whatever it says, the next try finds out. Bounded, to notice the end of the run.
      static_cast<void>(out_.wait_writable(std::chrono::milliseconds{10}));
    }
  }
  // Not a store per message: it would take part in what is measured.
  void reset() noexcept {
    if (refusals_ != 0)
      refusals_ = 0;
  }

 private:
  sender& out_;
  bool shares_core_;
  unsigned refusals_ = 0;
};

// Writes message `word` into a lane (or a batch of it), the way the run asks for.
template <check_kind Check, api_kind Api>
class message_writer {
 public:
  explicit message_writer(message_lengths lengths)
      : lengths_{lengths}, own_{std::make_unique<std::byte[]>(lengths.longest() + 8)} {}

  template <class Target>
  status write(Target& target, std::uint64_t word) noexcept {
    const std::size_t length = lengths_.of(word);
    if constexpr (Api == api_kind::send) {
      compose(word, own_.get(), length);
      return target.send({own_.get(), length});
    } else {
      auto slot = target.claim(length);
      if (!slot) [[unlikely]] {
        return slot.why();
      }
      compose(word, slot.bytes().data(), length);
      slot.commit();
      return {};
    }
  }

 private:
  static void compose(std::uint64_t word, std::byte* at, std::size_t length) noexcept {
    if constexpr (Check == check_kind::full) {
      fill(word, at, length);
    } else if constexpr (Check == check_kind::sequence) {
      std::memcpy(at, &word, sizeof word);
    }
  }

  message_lengths lengths_;
  std::unique_ptr<std::byte[]> own_;
};

void require_full(const status& why) {
  if (why != errc::would_block) [[unlikely]] {
    throw std::runtime_error(std::string{name(why.code())} + ": " + why.text());
  }
}

template <class Writer>
std::uint64_t send_freely(worker& self, sender& out, std::uint64_t who, Writer& writer) {
  patience room{self, out};
  std::uint64_t number = 0;
  while (!self.stopped()) {
    const status sent = writer.write(out, first_word(who, number));
    if (sent) [[likely]] {
      ++number;
      room.reset();
      continue;
    }
    require_full(sent);
    room.wait();
  }
  return number;
}

template <class Writer>
std::uint64_t send_batches(worker& self, sender& out, std::uint64_t who, Writer& writer) {
  patience room{self, out};
  const std::uint32_t most = self.work().batch;
  std::uint64_t number = 0;
  while (!self.stopped()) {
    status sent;
    {
      auto batch = out.batch();
      for (std::uint32_t i = 0; i != most && sent; ++i) {
        sent = writer.write(batch, first_word(who, number));
        number += sent ? 1 : 0;
      }
    }
    if (sent) {
      room.reset();
      continue;
    }
    require_full(sent);
    room.wait();
  }
  return number;
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

template <class Writer>
std::uint64_t send_paced(worker& self, sender& out, std::uint64_t who, Writer& writer) {
  const pace plan{self.work(), self.start_ns()};
  patience room{self, out};
  std::uint64_t number = 0;
  while (wait_until(self, plan.intended_ns(who, number))) {
    const status sent = writer.write(out, first_word(who, number));
    if (sent) {
      ++number;
      room.reset();
      continue;
    }
    require_full(sent);
    room.wait();
  }
  return number;
}

template <check_kind Check, api_kind Api>
std::uint64_t send_all(worker& self, sender& out) {
  message_writer<Check, Api> writer{self.work().lengths()};
  const std::uint64_t who = self.index() - 1;
  if (self.work().rate != 0) {
    return send_paced(self, out, who, writer);
  }
  return self.work().batch > 1 ? send_batches(self, out, who, writer)
                               : send_freely(self, out, who, writer);
}

}  // namespace

void send_to_channel(worker& self) {
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  const char* const address = self.work().address.data();
  // All of them in one process: silence is the same from everywhere.
  std::vector<sender> idle;
  if (self.index() == 1) {
    idle = open_idle_senders(self.work(), address);
  }
  sender out = open_sender(self.work(), address);
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t sent = 0;
  with_check(self.work().check, [&]<check_kind Check>() {
    sent = self.work().api == api_kind::claim ? send_all<Check, api_kind::claim>(self, out)
                                              : send_all<Check, api_kind::send>(self, out);
  });
  self.finish({.messages = sent});
}

}  // namespace atbus::bench
