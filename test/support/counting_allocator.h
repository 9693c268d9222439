// Counts calls of malloc and its kin, operator new included, by the calling thread.
#pragma once

#include <cstdint>

namespace atbus::test {

// False where this build has no way to count; tests that need it skip then.
[[nodiscard]] bool counts_allocations() noexcept;

// Allocations by this thread since it started.
[[nodiscard]] std::uint64_t allocations() noexcept;

// While one lives, allocations of this thread fail behind the first `good` ones: all, or the next `bad` ones.
class allocation_failure {
 public:
  explicit allocation_failure(std::uint64_t good = 0,
                              std::uint64_t bad = static_cast<std::uint64_t>(-1)) noexcept
      : allocation_failure(good, bad, nullptr) {}
  // Those that are asked for while `*spared` is true neither fail nor count.
  allocation_failure(std::uint64_t good, std::uint64_t bad, const bool* spared) noexcept;
  ~allocation_failure();
  allocation_failure(const allocation_failure&) = delete;
  allocation_failure& operator=(const allocation_failure&) = delete;
  // Whether one has failed.
  [[nodiscard]] static bool happened() noexcept;
};

// False where allocation_failure has no effect.
[[nodiscard]] bool can_fail_allocations() noexcept;

}  // namespace atbus::test
