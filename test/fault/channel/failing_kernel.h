// The kernel's table with one call that fails, once or for a while.
//
// Every entry of `detail::kernel_calls` has a row here with the errors that real kernels answer it
// with on the paths of a channel. The rows first count the calls of an operation, and then let each
// of those calls fail in turn.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "system/kernel.h"

namespace atbus::test {

// How often an entry was called since `failing_kernel::restart`, and which calls are to fail.
struct call_record {
  unsigned calls = 0;
  unsigned fails_at = 0;  // the first one that fails
  unsigned times = 0;     // and how many do
  int code = 0;
  bool failed = false;
};

struct failing_entry {
  std::string_view name;
  std::vector<int> codes;
  std::vector<int> more_codes;  // of a stream's sockets
  call_record* record;
  void (*intercept)(detail::kernel_calls& table);
};

// All entries of the table.
[[nodiscard]] std::span<const failing_entry> failing_entries();

// While it lives, all calls of this process go through the rows. One at a time, one thread.
class failing_kernel {
 public:
  failing_kernel();
  failing_kernel(const failing_kernel&) = delete;
  failing_kernel& operator=(const failing_kernel&) = delete;
  ~failing_kernel();

  // Counts from 0, nothing fails.
  void restart() const;
  // From now on the `nth` call (from 1) of this entry, and the next ones up to so many `times`, fail
  // with `code`.
  void arm(const failing_entry& entry, unsigned nth, int code, unsigned times = 1) const;
  // Until the next restart each recv, recvmsg and sendmsg moves so many bytes at most.
  void shorten(std::size_t bytes) const;
  // From now on pages have so many bytes, a power of two: what lies at another multiple can be
  // neither mapped nor unmapped. Nothing is mapped by the library yet.
  void enlarge_pages(std::size_t bytes) const;
  // All calls since the last restart.
  [[nodiscard]] static unsigned calls();
};

}  // namespace atbus::test
