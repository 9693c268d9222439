// Random numbers that a seed determines.
#pragma once

#include <random>
#include <span>

#include "core/random_source.h"

namespace atbus::detail {

class test_random final : public random_source {
 public:
  explicit test_random(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) noexcept override {
    for (std::byte& one : bytes)
      one = static_cast<std::byte>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace atbus::detail
