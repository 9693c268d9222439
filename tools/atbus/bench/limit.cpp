#include "atbus/bench/limit.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "atbus/bench/bare_ring.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/machine_state.h"

namespace atbus::bench {
namespace {

class event_descriptor {
 public:
  event_descriptor() : descriptor_{eventfd(0, 0)} {
    if (descriptor_ < 0) {
      throw std::runtime_error(std::string{"eventfd: "} + std::strerror(errno));
    }
  }
  ~event_descriptor() { close(descriptor_); }
  event_descriptor(const event_descriptor&) = delete;
  event_descriptor& operator=(const event_descriptor&) = delete;
  int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

run_outcome run_bare_ring(const workload& work, bool hang_back, const std::vector<int>& cpus) {
  workload ring = work;
  ring.hang_back = hang_back;
  ring.senders = 1;
  ring.connections = 1;
  constexpr std::array tasks{task::ring_receiver, task::ring_sender};
  return run_workers(
      ring, tasks,
      {.cpus = cpus, .label = "bare ring", .arena_bytes = ring_arena_bytes(ring_capacity(work))});
}

run_outcome run_ring_round_trip(const workload& work, const std::vector<int>& cpus) {
  constexpr std::array tasks{task::ring_ping, task::ring_pong};
  return run_workers(
      work, tasks,
      {.cpus = cpus, .label = {}, .arena_bytes = 2 * ring_arena_bytes(ring_capacity(work))});
}

run_outcome run_event_round_trip(const workload& work, const std::vector<int>& cpus) {
  const event_descriptor there;
  const event_descriptor back;
  workload events = work;
  events.events = {there.get(), back.get()};
  constexpr std::array tasks{task::event_ping, task::event_pong};
  return run_workers(events, tasks, {.cpus = cpus, .label = {}});
}

run_outcome run_cache_line_round_trip(const workload& work, const std::vector<int>& cpus) {
  constexpr std::array tasks{task::cache_line_ping, task::cache_line_pong};
  return run_workers(work, tasks, {.cpus = cpus, .label = {}, .arena_bytes = 4096});
}

run_outcome run_copy(const workload& work, std::uint64_t area_bytes, const std::vector<int>& cpus) {
  workload copy = work;
  copy.copy_area = area_bytes;
  constexpr std::array tasks{task::copy};
  return run_workers(copy, tasks, {.cpus = cpus, .label = {}});
}

void ring_limit::measure(const workload& work, const std::vector<int>& cpus) {
  if (!interrupted()) {
    hanging_back_.add(run_bare_ring(work, true, cpus));
  }
  if (!interrupted()) {
    eager_.add(run_bare_ring(work, false, cpus));
  }
}

std::unique_ptr<yardstick> ring_limit::of_rounds(const std::vector<std::size_t>& rounds) const {
  auto made = std::make_unique<ring_limit>();
  made->hanging_back_ = select(hanging_back_, rounds);
  made->eager_ = select(eager_, rounds);
  return made;
}

std::string ring_limit::name() const {
  return best_hangs_back() ? "bare ring, hanging back" : "bare ring, eager";
}

const run_series& ring_limit::best() const {
  return hanging_back_.messages_per_second().median >= eager_.messages_per_second().median
             ? hanging_back_
             : eager_;
}

}  // namespace atbus::bench
