// Runs a task of the pool benchmark in a fresh process, with malloc provided by a library of
// choice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atbus/bench/pool_task.h"

namespace atbus::bench {

struct pool_allocator {
  std::string name;  // "pool", "malloc", "jemalloc"
  bool is_pool = false;
  bool huge_pages = false;
  std::string library{};  // for LD_PRELOAD; empty: none

  [[nodiscard]] pool_task task_for(pool_test test, bool prefault) const noexcept;
};

// What to compare: ours and those that are installed here. A name in `missing` is of one that could
// not be loaded.
[[nodiscard]] std::vector<pool_allocator> find_pool_allocators(std::vector<std::string>& missing);

// Empty if the process could not be started or came to a bad end; `problem` says why.
[[nodiscard]] std::optional<pool_figures> run_pool_process(const pool_allocator& allocator,
                                                           const pool_task& task,
                                                           std::string& problem);

// The hidden option that the processes are started with, and its argument for a task.
inline constexpr const char* pool_worker_option = "--worker";
[[nodiscard]] std::string to_argument(const pool_task& task);
[[nodiscard]] std::optional<pool_task> from_argument(const std::string& argument);

}  // namespace atbus::bench
