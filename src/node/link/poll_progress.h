// How far the poll that is running has come, for those who tell many messages at a time.
#pragma once

#include <chrono>
#include <cstddef>

namespace atbus::detail {

struct poll_progress {
  // So many messages are told between two looks at the clock.
  static constexpr std::size_t per_look = 32;

  // Messages, to the user. Those that came past the core are added now and then, and before the last one.
  std::size_t told = 0;
  std::size_t most = 0;
  std::chrono::nanoseconds deadline{0};  // 0: there is none

  [[nodiscard]] bool is_enough() const noexcept { return told >= most; }
};

}  // namespace atbus::detail
