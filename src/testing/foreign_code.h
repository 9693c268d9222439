// Whose code runs: a node's own, or that of what is around a simulated node.
//
// A test that lets allocations of a node fail spares the others: a simulated kernel has no answer to that.
#pragma once

#include <utility>

namespace atbus::detail {

// While one lives, the code of this thread is not a node's own; or is, if it was made with false.
class foreign_code {
 public:
  explicit foreign_code(bool is_foreign = true) noexcept
      : before_(std::exchange(runs_, is_foreign)) {}
  ~foreign_code() { runs_ = before_; }
  foreign_code(const foreign_code&) = delete;
  foreign_code& operator=(const foreign_code&) = delete;

  // Of this thread.
  [[nodiscard]] static const bool& runs() noexcept { return runs_; }

 private:
  static inline thread_local bool runs_ = false;
  const bool before_;
};

}  // namespace atbus::detail
