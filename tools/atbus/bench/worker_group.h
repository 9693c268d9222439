// One run, seen from the parent: starts the workers, keeps the time, collects what they found out.
//
// Each worker process is this program started anew, so that its memory figures are its own. A
// worker that fails or dies ends the run with a sentence that says which and how; nothing waits
// longer than the run's duration and a fixed grace, after which what is left is killed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "atbus/bench/control_block.h"

namespace atbus::bench {

struct run_setup {
  std::vector<int> cpus;                             // see cpu_of_worker
  bool threads = false;                              // workers are threads of one process
  std::string label;                                 // for the progress line; empty: none
  std::uint64_t arena_bytes = 0;                     // shared memory for rings or counts
  std::function<void(control_block&)> read_arena{};  // called once all workers are over
};

struct run_outcome {
  std::vector<worker_figures> workers;  // as the tasks were; zeros for one that failed
  std::vector<std::string> problems;    // empty: all went well
  histogram latency;
  std::int64_t start_ns = 0;
  bool interrupted = false;  // by Ctrl-C

  double seconds(std::size_t worker) const noexcept {
    return static_cast<double>(workers[worker].end_ns - start_ns) / 1e9;
  }
};

// One task a worker. Call from one thread at a time.
run_outcome run_workers(const workload& work, std::span<const task> tasks, const run_setup& setup);

}  // namespace atbus::bench
