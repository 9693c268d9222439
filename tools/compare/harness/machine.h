// What the harness asks of the system.
#pragma once

#include <cstdint>

namespace atbus::compare {

// Used by this process, all its threads, so far.
std::int64_t cpu_time_ns() noexcept;

// SIGTERM asks the process to finish; from then on this is true.
void watch_for_termination() noexcept;
bool terminated() noexcept;

// The calling thread stays on the first or the last processor that the process may use.
enum class core { first, last };
void stay_on(core which) noexcept;

// Says that a peer may start.
void say_ready() noexcept;
// Waits until the driver says go.
void wait_for_go() noexcept;

}  // namespace atbus::compare
