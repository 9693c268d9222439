// Workers that measure the machine below any ring: a cache line between two cores, a wake-up
// through the kernel, a copy.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// The line that the two cores take from each other, alone in the arena.
std::atomic<std::uint64_t>& line_of(worker& self) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(self.block().arena());
}

// False: stopped before the line held the value. Acquire and release pair on the line itself.
bool wait_for_value(worker& self, const std::atomic<std::uint64_t>& line,
                    std::uint64_t value) noexcept {
  return look_until_stopped(self, [&] { return line.load(std::memory_order_acquire) == value; });
}

bool ring_event(int descriptor) noexcept {
  const std::uint64_t one = 1;
  return write(descriptor, &one, sizeof one) == sizeof one;
}

// False: an error, or the end of the run.
bool wait_for_event(int descriptor) noexcept {
  std::uint64_t count = 0;
  ssize_t got = 0;
  do {
    got = read(descriptor, &count, sizeof count);
  } while (got < 0 && errno == EINTR);
  return got == sizeof count;
}

}  // namespace

void ping_cache_line(worker& self) {
  std::atomic<std::uint64_t>& line = line_of(self);
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t trips = 0;
  while (!self.stopped()) {
    line.store(2 * trips + 1, std::memory_order_release);
    if (!wait_for_value(self, line, 2 * trips + 2)) {
      break;
    }
    ++trips;
  }
  self.finish({.messages = trips});
}

void pong_cache_line(worker& self) {
  std::atomic<std::uint64_t>& line = line_of(self);
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t trips = 0;
  while (wait_for_value(self, line, 2 * trips + 1)) {
    line.store(2 * trips + 2, std::memory_order_release);
    ++trips;
  }
  self.finish({.messages = trips});
}

void ping_events(worker& self) {
  const auto [there, back] = self.work().events;
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  if (!time_round_trips(self, figures, [there = there, back = back](std::uint64_t) {
        return ring_event(there) && wait_for_event(back);
      })) {
    return self.fail(std::strerror(errno));
  }
  self.finish(figures);
  self.stop_all();
  ring_event(there);  // the other side sleeps and would not see the end
}

void pong_events(worker& self) {
  const auto [there, back] = self.work().events;
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t trips = 0;
  while (wait_for_event(there)) {
    if (!ring_event(back)) {
      return self.fail(std::strerror(errno));
    }
    if (self.stopped() && self.over(0)) {
      break;
    }
    ++trips;
  }
  self.finish({.messages = trips});
}

void copy_blocks(worker& self) {
  constexpr std::size_t block_bytes = 16 * 1024;
  const std::size_t area = self.work().copy_area;
  const auto from = std::make_unique<std::byte[]>(block_bytes);
  const auto to = std::make_unique<std::byte[]>(area);
  std::memset(from.get(), 1, block_bytes);
  std::memset(to.get(), 1, area);
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t blocks = 0;
  while (!self.stopped()) {
    std::memcpy(to.get() + blocks * block_bytes % area, from.get(), block_bytes);
    asm volatile("" ::: "memory");  // the copy must happen
    ++blocks;
  }
  self.finish({.messages = blocks, .bytes = blocks * block_bytes});
}

}  // namespace atbus::bench
