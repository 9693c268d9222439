#include "atbus/bench/worker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

#include "atbus/bench/cpus.h"
#include "atbus/bench/resource_usage.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

constexpr std::string_view worker_word = "bench-worker";
constexpr std::int64_t waiting_step_ns = 200'000;

bool parse(const char* text, std::size_t& number) noexcept {
  const char* const end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, number);
  return code == std::errc{} && stop == end;
}

control_block* map_control_block(int descriptor) noexcept {
  struct stat about {};
  if (fstat(descriptor, &about) != 0 ||
      static_cast<std::size_t>(about.st_size) < sizeof(control_block)) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, static_cast<std::size_t>(about.st_size),
                            PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<control_block*>(memory);
}

void run_slot(control_block& block, std::size_t index, bool is_thread) noexcept {
  worker self{block, index, is_thread};
  run_on_cpu(block.slots[index].cpu);
  try {
    run_task(self);
  } catch (const std::exception& problem) {
    self.fail(problem.what());
  }
}

// The parent ends the run; but when workers have a real-time priority on every core the parent may
// never run. So each process also has a timer of its own that interrupts its own loops: at first it
// stops the run for all, then it ends the process.
constexpr std::int64_t lateness_s = 5;
constexpr std::int64_t second_chance_s = 20;

std::atomic<std::uint32_t>* stop_flag = nullptr;

volatile std::sig_atomic_t lateness_seen = 0;

extern "C" void stop_late_run(int) {
  if (lateness_seen != 0) {
    _exit(1);
  }
  lateness_seen = 1;
  stop_flag->store(1, std::memory_order_relaxed);
}

void bound_run(control_block& block) noexcept {
  stop_flag = &block.stop;
  std::signal(SIGALRM, stop_late_run);
  itimerval timer{};
  timer.it_value.tv_sec = block.work.duration_ns / ns_per_s + lateness_s;
  timer.it_interval.tv_sec = second_chance_s;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

void worker::listening(std::string_view address) noexcept {
  const std::size_t length = std::min(address.size(), slot_.address.size() - 1);
  std::memcpy(slot_.address.data(), address.data(), length);
  slot_.state.store(worker_state::listening, std::memory_order_release);
}

bool worker::wait_for(std::size_t other, worker_state state) noexcept {
  const std::atomic<worker_state>& theirs = block_.slots[other].state;
  for (;;) {
    const worker_state seen = theirs.load(std::memory_order_acquire);
    if (seen == worker_state::failed || stopped()) {
      return false;
    }
    if (seen >= state) {
      return true;
    }
    sleep_ns(waiting_step_ns);
  }
}

bool worker::wait_for_start() noexcept {
  slot_.state.store(worker_state::ready, std::memory_order_release);
  while (block_.go.load(std::memory_order_acquire) == 0) {
    if (stopped()) {
      return false;
    }
    sched_yield();
  }
  if (!is_thread_ || index_ == 0) {
    bound_run(block_);
  }
  cpu_at_start_ns_ = (is_thread_ ? thread_usage() : process_usage()).cpu_ns;
  return true;
}

void worker::finish(worker_figures figures) noexcept {
  const std::int64_t wall_ns = now_ns() - block_.start_ns;
  const resource_usage usage = is_thread_ ? thread_usage() : process_usage();
  if (figures.end_ns == 0) {
    figures.end_ns = now_ns();
  }
  figures.cpu_percent = 100.0 * static_cast<double>(usage.cpu_ns - cpu_at_start_ns_) /
                        static_cast<double>(std::max<std::int64_t>(wall_ns, 1));
  figures.minor_faults = usage.minor_faults;
  figures.major_faults = usage.major_faults;
  figures.max_rss_kib = max_rss_kib();
  slot_.figures = figures;
  slot_.state.store(worker_state::finished, std::memory_order_release);
}

void worker::fail(std::string_view why) noexcept {
  const std::size_t length = std::min(why.size(), slot_.problem.size() - 1);
  std::memcpy(slot_.problem.data(), why.data(), length);
  slot_.state.store(worker_state::failed, std::memory_order_release);
}

void run_task(worker& self) {
  switch (self.block().slots[self.index()].work) {
    case task::channel_receiver:
      return receive_from_channel(self);
    case task::channel_sender:
      return send_to_channel(self);
    case task::channel_ping:
      return ping_over_channels(self);
    case task::channel_pong:
      return pong_over_channels(self);
    case task::node_receiver:
      return receive_at_node(self);
    case task::node_sender:
      return send_from_node(self);
    case task::node_ping:
      return ping_over_nodes(self);
    case task::node_pong:
      return pong_over_nodes(self);
    case task::node_relay:
      return relay_for_nodes(self);
    case task::node_both_ends:
      return ping_between_own_nodes(self);
    case task::node_member:
      return exchange_between_nodes(self);
    case task::request_service:
      return serve_requests(self);
    case task::request_client:
      return send_requests(self);
    case task::ring_receiver:
      return receive_from_ring(self);
    case task::ring_sender:
      return send_to_ring(self);
    case task::ring_ping:
      return ping_over_rings(self);
    case task::ring_pong:
      return pong_over_rings(self);
    case task::cache_line_ping:
      return ping_cache_line(self);
    case task::cache_line_pong:
      return pong_cache_line(self);
    case task::event_ping:
      return ping_events(self);
    case task::event_pong:
      return pong_events(self);
    case task::socket_reader:
      return read_from_socket(self);
    case task::socket_writer:
      return write_to_socket(self);
    case task::socket_ping:
      return ping_over_sockets(self);
    case task::socket_pong:
      return pong_over_sockets(self);
    case task::frame_receiver:
      return receive_frames(self);
    case task::frame_sender:
      return send_frames(self);
    case task::cache_server:
      return serve_cache(self);
    case task::cache_client:
      return ask_cache(self);
    case task::cache_rival_server:
      return serve_as_cache_rival(self);
    case task::cache_rival_client:
      return ask_cache_rival(self);
    case task::copy:
      return copy_blocks(self);
    case task::none:
      break;
  }
  self.fail("no task was given");
}

bool is_worker_call(int argc, const char* const* argv) noexcept {
  return argc == 5 && argv[1] == worker_word;
}

int run_worker_process(int argc, const char* const* argv) noexcept {
  std::size_t descriptor = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  if (argc != 5 || !parse(argv[2], descriptor) || !parse(argv[3], first) ||
      !parse(argv[4], count) || count == 0 || first + count > control_block::most_workers) {
    return 2;
  }
  control_block* const block = map_control_block(static_cast<int>(descriptor));
  if (block == nullptr) {
    return 2;
  }
  // The parent's Ctrl-C ends us through `stop`, its death through this signal.
  std::signal(SIGINT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);

  std::vector<std::thread> threads;
  try {
    for (std::size_t index = first + 1; index < first + count; ++index) {
      threads.emplace_back([block, index] { run_slot(*block, index, true); });
    }
  } catch (const std::exception& problem) {
    worker{*block, first, true}.fail(problem.what());
    block->stop.store(1, std::memory_order_relaxed);
  }
  run_slot(*block, first, count > 1);
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}

}  // namespace atbus::bench
