// Tells whether a program that polls in a loop may read its connections directly instead of asking epoll
// first. Only for a moment at a time, because new connections may be waiting.
#pragma once

#include <chrono>
#include <cstddef>

namespace atbus::detail {

class poll_rhythm {
 public:
  // With more connections than this, epoll is always asked.
  static constexpr std::size_t few_connections = 4;

  // Called at each poll that looks for something to read.
  [[nodiscard]] bool may_skip_look(std::chrono::nanoseconds time) noexcept {
    in_a_row_ = time - polled_at_ < between_looks ? in_a_row_ + 1 : 0;
    polled_at_ = time;
    return in_a_row_ >= again_and_again && time - looked_at_ < between_looks;
  }
  void looked(std::chrono::nanoseconds time) noexcept { looked_at_ = time; }
  // The latest look may be long ago: others may have become ready.
  [[nodiscard]] bool is_late(std::chrono::nanoseconds time) const noexcept {
    return time - looked_at_ >= std::chrono::milliseconds{1};
  }

 private:
  static constexpr unsigned again_and_again = 16;
  static constexpr std::chrono::nanoseconds between_looks = std::chrono::microseconds{50};

  unsigned in_a_row_ = 0;
  std::chrono::nanoseconds polled_at_{0};
  std::chrono::nanoseconds looked_at_{0};
};

}  // namespace atbus::detail
