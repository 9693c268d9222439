// What the system charged to a thread or process.
#pragma once

#include <cstdint>

namespace atbus::bench {

struct resource_usage {
  std::int64_t cpu_ns = 0;  // user and system together
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
};

// Of the calling thread alone, or of its process (getrusage(2)).
resource_usage thread_usage() noexcept;
resource_usage process_usage() noexcept;

// The most memory the process ever had resident, in KiB: VmHWM of proc_pid_status(5), because
// ru_maxrss includes that of the program the process was forked from. 0 if unknown.
std::uint64_t max_rss_kib() noexcept;

}  // namespace atbus::bench
