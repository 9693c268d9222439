// An incarnation of a channel, lived again and again while each system call of it fails in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "failing_kernel.h"

namespace atbus::test {

// What is to be seen of an incarnation when it is over. It ends early with an exception.
struct lifecycle_report {
  std::uint64_t missing = 0;           // accepted, and neither received nor given back
  std::uint64_t lost_connections = 0;  // beyond those that the script ends
  std::vector<std::string> files;      // left over
};
// Makes its world, calls `begin`, which decides what fails from there on, and lives.
using lifecycle_script = std::function<lifecycle_report(const std::function<void()>& begin)>;

// Of one incarnation; many times what one needs that sleeps when it has nothing to do.
inline constexpr unsigned most_calls = 100'000;
// Lives once without a failure, and then once for each error of each call, until the script makes no
// such call any more. Nothing spins, and nothing is missing or left open, unless it says so above.
void survive_each_failure(const failing_kernel& kernel, const lifecycle_script& live);
// While recv, recvmsg and sendmsg move a few bytes at a time.
void survive_short_calls(const failing_kernel& kernel, const lifecycle_script& live);

// While the kernel has no memory for 30 ms, to write or to read. `live` returns how many calls were made
// in that time; who spins makes many.
void live_without_memory(const std::function<unsigned(const failing_entry&, int code)>& live);

}  // namespace atbus::test
