// A node's source of random numbers: for incarnations, nonces and the backoff of dials. The simulator derives
// them from a seed.
#pragma once

#include <cstdint>
#include <span>

namespace atbus::detail {

class random_source {
 public:
  random_source(const random_source&) = delete;
  random_source& operator=(const random_source&) = delete;
  virtual ~random_source() = default;

  virtual void fill(std::span<std::byte> bytes) noexcept = 0;
  [[nodiscard]] std::uint64_t word() noexcept {
    std::uint64_t value = 0;
    fill(std::as_writable_bytes(std::span{&value, 1}));
    return value;
  }

 protected:
  random_source() = default;
};

}  // namespace atbus::detail
