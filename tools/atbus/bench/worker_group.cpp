#include "atbus/bench/worker_group.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>

#include "atbus/bench/clock.h"
#include "atbus/bench/cpus.h"
#include "atbus/bench/interrupt.h"

namespace atbus::bench {
namespace {

constexpr std::int64_t start_grace_ns = 20 * ns_per_s;
constexpr std::int64_t end_grace_ns = 10 * ns_per_s;
constexpr std::int64_t tick_ns = 10'000'000;
constexpr std::int64_t progress_ns = 200'000'000;

// The shared memory of a run and the descriptor through which workers find it.
class shared_block {
 public:
  explicit shared_block(std::uint64_t arena_bytes)
      : bytes_{(sizeof(control_block) + 4095) / 4096 * 4096 + arena_bytes},
        descriptor_{memfd_create("atbus-bench", 0)} {
    if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
      throw std::runtime_error(std::string{"no shared memory for the run: "} +
                               std::strerror(errno));
    }
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED) {
      throw std::runtime_error(std::string{"no shared memory for the run: "} +
                               std::strerror(errno));
    }
    block_ = new (memory_) control_block;
    block_->arena_bytes = arena_bytes;
  }
  ~shared_block() {
    munmap(memory_, bytes_);
    close(descriptor_);
  }
  shared_block(const shared_block&) = delete;
  shared_block& operator=(const shared_block&) = delete;

  control_block& operator*() const noexcept { return *block_; }
  control_block* operator->() const noexcept { return block_; }
  int descriptor() const noexcept { return descriptor_; }

 private:
  std::uint64_t bytes_;
  int descriptor_;
  void* memory_ = nullptr;
  control_block* block_ = nullptr;
};

std::string_view role_of(task work) noexcept {
  switch (work) {
    case task::channel_receiver:
    case task::node_receiver:
    case task::ring_receiver:
    case task::socket_reader:
    case task::frame_receiver:
      return "receiver";
    case task::channel_sender:
    case task::node_sender:
    case task::ring_sender:
    case task::socket_writer:
    case task::frame_sender:
      return "sender";
    case task::cache_server:
    case task::cache_rival_server:
      return "server";
    case task::request_service:
      return "service";
    case task::request_client:
    case task::cache_client:
    case task::cache_rival_client:
      return "client";
    default:
      return "worker";
  }
}

// The processes of a run.
class worker_processes {
 public:
  worker_processes(control_block& block, int descriptor) : block_{block}, descriptor_{descriptor} {}
  ~worker_processes() { kill_all(); }
  worker_processes(const worker_processes&) = delete;
  worker_processes& operator=(const worker_processes&) = delete;

  void start(std::size_t first, std::size_t count) {
    // Made before the fork: the child may only call what is safe in a signal handler.
    const std::string descriptor = std::to_string(descriptor_);
    const std::string first_text = std::to_string(first);
    const std::string count_text = std::to_string(count);
    const char* const argv[] = {
        "atbus", "bench-worker", descriptor.c_str(), first_text.c_str(), count_text.c_str(),
        nullptr};
    const pid_t pid = fork();
    if (pid < 0) {
      throw std::runtime_error(std::string{"can't start a worker: "} + std::strerror(errno));
    }
    if (pid == 0) {
      std::signal(SIGINT, SIG_IGN);
      execv("/proc/self/exe", const_cast<char* const*>(argv));
      _exit(127);
    }
    running_.push_back({pid, first, count});
  }

  // Notes processes that have ended; those that ended badly become problems.
  void reap(std::vector<std::string>& problems) {
    for (std::size_t i = 0; i < running_.size();) {
      int how = 0;
      if (waitpid(running_[i].pid, &how, WNOHANG) != running_[i].pid) {
        ++i;
        continue;
      }
      note_end(running_[i], how, problems);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  bool empty() const noexcept { return running_.empty(); }

  void kill_all() noexcept {
    for (const process& one : running_) {
      kill(one.pid, SIGKILL);
      waitpid(one.pid, nullptr, 0);
    }
    running_.clear();
  }

 private:
  struct process {
    pid_t pid;
    std::size_t first;
    std::size_t count;
  };

  void note_end(const process& ended, int how, std::vector<std::string>& problems) {
    for (std::size_t index = ended.first; index != ended.first + ended.count; ++index) {
      worker_slot& slot = block_.slots[index];
      const worker_state state = slot.state.load(std::memory_order_acquire);
      if (state == worker_state::finished) {
        continue;
      }
      const std::string who =
          fmt::format("{} {} (process {})", role_of(slot.work), index, static_cast<int>(ended.pid));
      slot.problem.back() = '\0';
      if (state == worker_state::failed) {
        problems.push_back(who + ": " + slot.problem.data());
      } else if (WIFSIGNALED(how)) {
        problems.push_back(fmt::format("{} was killed by signal {}", who, WTERMSIG(how)));
      } else if (block_.stop.load(std::memory_order_relaxed) == 0 || WEXITSTATUS(how) != 0) {
        problems.push_back(
            fmt::format("{} ended with code {} before its work was done", who, WEXITSTATUS(how)));
      }
      // The others must not wait for it.
      slot.state.store(worker_state::failed, std::memory_order_release);
    }
  }

  control_block& block_;
  int descriptor_;
  std::vector<process> running_;
};

void plan_slots(control_block& block, std::span<const task> tasks, const run_setup& setup) {
  block.workers = static_cast<std::uint32_t>(tasks.size());
  const std::vector<int> cpus = setup.cpus.empty() ? allowed_cpus() : setup.cpus;
  std::vector<int> placed;
  for (std::size_t index = 0; index != tasks.size(); ++index) {
    block.slots[index].work = tasks[index];
    // Several receiving threads share the cores as the kernel likes.
    const bool anywhere = index == 0 && block.work.receivers > 1;
    block.slots[index].cpu = anywhere ? -1 : cpu_of_worker(cpus, index);
    placed.push_back(block.slots[index].cpu);
  }
  for (std::size_t index = 0; index != tasks.size(); ++index) {
    block.slots[index].shares_core =
        std::count(placed.begin(), placed.end(), placed[index]) > 1 || block.work.receivers > 1;
  }
}

bool all_at_least(const control_block& block, worker_state state) noexcept {
  for (std::size_t index = 0; index != block.workers; ++index) {
    if (block.slots[index].state.load(std::memory_order_acquire) < state) {
      return false;
    }
  }
  return true;
}

bool any_failed(const control_block& block) noexcept {
  for (std::size_t index = 0; index != block.workers; ++index) {
    if (block.slots[index].state.load(std::memory_order_acquire) == worker_state::failed) {
      return true;
    }
  }
  return false;
}

// One line on a terminal that is overwritten as the run goes on.
class progress_line {
 public:
  explicit progress_line(const run_setup& setup) noexcept
      : label_{setup.label}, shown_{!setup.label.empty() && isatty(STDERR_FILENO) == 1} {}
  ~progress_line() {
    if (shown_) {
      fmt::print(stderr, "\r\x1b[K");
    }
  }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(const control_block& block, std::int64_t now) {
    if (!shown_ || now < next_ns_) {
      return;
    }
    next_ns_ = now + progress_ns;
    const std::uint64_t messages = block.slots[0].progress.load(std::memory_order_relaxed);
    const double seconds = static_cast<double>(now - block.start_ns) / 1e9;
    const double per_second = seconds > 0 ? static_cast<double>(messages) / seconds : 0;
    fmt::print(stderr, "\r\x1b[K {}   {:.1f} s   {:.2f} M/s", label_, seconds, per_second / 1e6);
    std::fflush(stderr);
  }

 private:
  std::string label_;
  bool shown_;
  std::int64_t next_ns_ = 0;
};

// Waits until all workers are ready. False: the run is over before it began.
bool wait_until_ready(control_block& block, worker_processes& processes, run_outcome& outcome) {
  const std::int64_t deadline = now_ns() + start_grace_ns;
  while (!all_at_least(block, worker_state::ready)) {
    processes.reap(outcome.problems);
    if (!outcome.problems.empty() || interrupted()) {
      return false;
    }
    if (now_ns() > deadline) {
      outcome.problems.emplace_back("the workers were not ready within 20 s");
      return false;
    }
    sleep_ns(tick_ns / 20);
  }
  processes.reap(outcome.problems);
  return outcome.problems.empty();
}

void let_run(control_block& block, const run_setup& setup, worker_processes& processes,
             run_outcome& outcome) {
  progress_line line{setup};
  block.start_ns = outcome.start_ns = now_ns();
  block.go.store(1, std::memory_order_release);
  const std::int64_t end = block.start_ns + block.work.duration_ns;
  for (;;) {
    const std::int64_t now = now_ns();
    processes.reap(outcome.problems);
    if (now >= end || interrupted() || !outcome.problems.empty() ||
        all_at_least(block, worker_state::finished)) {
      return;
    }
    line.show(block, now);
    sleep_ns(std::min(tick_ns, end - now));
  }
}

void wait_until_over(control_block& block, worker_processes& processes, run_outcome& outcome) {
  block.stop.store(1, std::memory_order_relaxed);
  const std::int64_t deadline = now_ns() + end_grace_ns;
  while (!processes.empty()) {
    processes.reap(outcome.problems);
    if (processes.empty()) {
      return;
    }
    if (now_ns() > deadline) {
      outcome.problems.emplace_back("workers did not end within 10 s and were killed");
      processes.kill_all();
      return;
    }
    sleep_ns(tick_ns / 20);
  }
}

}  // namespace

run_outcome run_workers(const workload& work, std::span<const task> tasks, const run_setup& setup) {
  if (tasks.empty() || tasks.size() > control_block::most_workers) {
    throw std::invalid_argument("too many workers for one run");
  }
  const shared_block block{setup.arena_bytes};
  block->work = work;
  plan_slots(*block, tasks, setup);

  run_outcome outcome;
  worker_processes processes{*block, block.descriptor()};
  if (setup.threads) {
    processes.start(0, tasks.size());
  } else {
    for (std::size_t index = 0; index != tasks.size(); ++index) {
      processes.start(index, 1);
    }
  }
  if (wait_until_ready(*block, processes, outcome)) {
    let_run(*block, setup, processes, outcome);
  }
  wait_until_over(*block, processes, outcome);

  outcome.interrupted = interrupted();
  if (outcome.problems.empty() && !outcome.interrupted && any_failed(*block)) {
    outcome.problems.emplace_back("a worker gave up without a reason");
  }
  outcome.latency = block->latency;
  if (setup.read_arena) {
    setup.read_arena(*block);
  }
  for (std::size_t index = 0; index != tasks.size(); ++index) {
    outcome.workers.push_back(block->slots[index].figures);
  }
  return outcome;
}

}  // namespace atbus::bench
