// What senders of channels and of nodes share: how messages are written, how many at a time, and
// what to do when there is no room.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "atbus/bench/message.h"
#include "atbus/bench/worker.h"
#include "atbus/bench/write_message.h"
#include "atbus/status.hpp"

namespace atbus::bench {

inline bool carries_by_socket(const workload& work) noexcept {
  return work.stream && !work.moves_to_lanes;
}

// Messages of about one write of a stream. The queues of many connections together should not
// outgrow the processor's caches. `head_bytes`: of a message, in its frame.
inline std::uint32_t messages_a_write(const workload& work, std::uint64_t head_bytes = 0) noexcept {
  constexpr std::uint64_t write_bytes = 240 * 1024;
  constexpr std::uint64_t all_writes_bytes = 64 << 20;
  constexpr std::uint64_t frame_header_bytes = 8;
  const message_lengths lengths = work.lengths();
  const std::uint64_t mean =
      (lengths.shortest() + lengths.longest()) / 2 + frame_header_bytes + head_bytes;
  const std::uint64_t bytes = std::min(write_bytes, all_writes_bytes / work.connections);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(bytes / mean, 1));
}

// What to do while there is no room. Alone on its core a sender to lanes just tries again. One that
// shares it lets the others run, and when that does not help either, sleeps until there is room. One
// that waits for the kernel sleeps at once: it has left enough to write to be woken before that is
// gone.
class patience {
 public:
  explicit patience(const worker& self) noexcept
      : socket_{carries_by_socket(self.work())}, shares_core_{self.shares_core()} {}

  template <class Target>
  void wait(Target& out) noexcept {
    constexpr unsigned hasty_retries = 64;
    ++refusals_;
    if (!socket_ && !shares_core_) {
      spin_pause();
    } else if (!socket_ && refusals_ < hasty_retries) {
      sched_yield();
    } else {
      // Whatever it says, the next try finds out. Bounded, to notice the end of the run.
      static_cast<void>(out.wait_writable(std::chrono::milliseconds{10}));
    }
  }
  // Not a store per message: it would take part in what is measured.
  void reset() noexcept {
    if (refusals_ != 0)
      refusals_ = 0;
  }

 private:
  bool socket_;
  bool shares_core_;
  unsigned refusals_ = 0;
};

// Writes message `word` into a lane (or a batch of it), or sends it to a node, the way the run asks
// for.
template <check_kind Check, api_kind Api>
class message_writer {
 public:
  explicit message_writer(message_lengths lengths)
      : lengths_{lengths}, own_{std::make_unique<std::byte[]>(lengths.longest() + 8)} {}

  template <class Target>
  status write(Target& target, std::uint64_t word) noexcept {
    const std::size_t length = lengths_.of(word);
    if constexpr (Api == api_kind::send) {
      write_message<Check>(word, own_.get(), length);
      return target.send({own_.get(), length});
    } else {
      auto slot = target.claim(length);
      if (!slot) [[unlikely]] {
        return slot.why();
      }
      write_message<Check>(word, slot.bytes().data(), length);
      slot.commit();
      return {};
    }
  }

 private:
  message_lengths lengths_;
  std::unique_ptr<std::byte[]> own_;
};

inline void require_full(const status& why) {
  if (why != errc::would_block) [[unlikely]] {
    throw std::runtime_error(std::string{name(why.code())} + ": " + why.text());
  }
}

}  // namespace atbus::bench
