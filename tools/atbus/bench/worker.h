// One worker of a run, seen from inside: a process of its own, or a thread for channels that live
// in one process.
#pragma once

#include <cstdint>
#include <string_view>

#include "atbus/bench/clock.h"
#include "atbus/bench/control_block.h"

namespace atbus::bench {

class worker {
 public:
  worker(control_block& block, std::size_t index, bool is_thread) noexcept
      : block_{block}, slot_{block.slots[index]}, index_{index}, is_thread_{is_thread} {}

  const workload& work() const noexcept { return block_.work; }
  control_block& block() noexcept { return block_; }
  std::size_t index() const noexcept { return index_; }
  bool shares_core() const noexcept { return slot_.shares_core; }

  // Lets others know that this worker can be dialled, and where.
  void listening(std::string_view address) noexcept;
  // Where that worker listens, once it does.
  const char* address_of(std::size_t other) const noexcept {
    return block_.slots[other].address.data();
  }
  // Waits until that worker has come at least so far. False: it failed, or the run was stopped.
  [[nodiscard]] bool wait_for(std::size_t other, worker_state state) noexcept;

  // Whether that worker has come at least so far.
  [[nodiscard]] bool reached(std::size_t other, worker_state state) const noexcept {
    return block_.slots[other].state.load(std::memory_order_acquire) >= state;
  }

  // Reports readiness, waits for the common start. False: there will be none.
  [[nodiscard]] bool wait_for_start() noexcept;
  std::int64_t start_ns() const noexcept { return block_.start_ns; }
  [[nodiscard]] bool stopped() const noexcept {
    return block_.stop.load(std::memory_order_relaxed) != 0;
  }

  // Ends the run for all, before its time.
  void stop_all() noexcept { block_.stop.store(1, std::memory_order_relaxed); }

  void progress(std::uint64_t messages) noexcept {
    slot_.progress.store(messages, std::memory_order_relaxed);
  }

  // Of nodes that send to each other: what has been sent stands in sent_counts.
  void sent_all() noexcept { slot_.sent_all.store(true, std::memory_order_release); }
  [[nodiscard]] bool has_sent_all(std::size_t other) const noexcept {
    return block_.slots[other].sent_all.load(std::memory_order_acquire);
  }

  // Adds what the system knows of this worker and hands the figures in.
  void finish(worker_figures figures) noexcept;
  void fail(std::string_view why) noexcept;

  // True when that worker has handed in its figures or is known to be dead.
  [[nodiscard]] bool over(std::size_t other) const noexcept {
    return reached(other, worker_state::finished);
  }
  // Its figures, once it is over.
  const worker_figures& figures_of(std::size_t other) const noexcept {
    return block_.slots[other].figures;
  }

 private:
  control_block& block_;
  worker_slot& slot_;
  std::size_t index_;
  bool is_thread_;
  std::int64_t cpu_at_start_ns_ = 0;
};

// Runs the task of a slot to its end.
void run_task(worker& self);

// True if these are the arguments that worker processes are started with; main() hands them to
// run_worker_process before it looks at anything else.
bool is_worker_call(int argc, const char* const* argv) noexcept;
// The exit code of the process.
int run_worker_process(int argc, const char* const* argv) noexcept;

}  // namespace atbus::bench
