/// @class atbus::sleep_awaitable
/// What `co_await node.sleep(time)` waits for: ok once the time has passed on the node's clock;
/// closed if the node ends first; out_of_memory. Works in any coroutine type; a coroutine that is
/// destroyed while it sleeps is not resumed.
///
/// Cost: no memory, and a few instructions however many coroutines sleep. A coroutine never wakes
/// early. It wakes in the first poll that begins 0.2 ms after its time, or sooner; those whose time
/// is over in one poll wake in the order of their times, to within 0.2 ms.
///
/// Threads: the node's own.
#pragma once

#include <chrono>
#include <coroutine>

#include "atbus/detail/export.hpp"
#include "atbus/detail/wheel_timer.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
class node_core;
class sleeping_coroutines;

// A frame has one for each sleep, and there can be many: so it is small.
struct sleeper : wheel_timer {
  sleeper(node_core* of, std::chrono::nanoseconds how_long) noexcept : core(of), time(how_long) {}

  node_core* core;
  std::chrono::nanoseconds time;
  std::coroutine_handle<> waiting;
  errc result = errc::ok;
};
}  // namespace detail

class ATBUS_API sleep_awaitable {
 public:
  /// Always false: the coroutine waits for a poll at least.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Begins to sleep. False: that failed, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting) noexcept;
  /// How the sleep ended: ok, closed, out_of_memory.
  status await_resume() const noexcept { return sleeper_.result; }

 private:
  friend class node;
  sleep_awaitable(detail::node_core* core, std::chrono::nanoseconds time) noexcept
      : sleeper_(core, time) {}

  detail::sleeper sleeper_;
};

}  // namespace atbus
