// The coroutines that sleep on the node's clock.
//
// One thread, resumed from poll alone, but for the end of the node.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <new>

#include "atbus/clock.hpp"
#include "atbus/sleep.hpp"
#include "core/timer_wheel.h"
#include "node/core/node_context.h"

namespace atbus::detail {

class sleeping_coroutines {
 public:
  explicit sleeping_coroutines(node_context& node) noexcept : node_(node) {}

  // Until that time has passed, or the node ends.
  errc add(sleeper& who, std::chrono::nanoseconds time) noexcept {
    if (node_.closed)
      return errc::closed;
    try {
      wheel_.prepare();
    } catch (const std::bad_alloc&) {
      return errc::out_of_memory;
    }
    const std::chrono::nanoseconds now = node_.recent();
    wheel_.set(
        who,
        moment_after(now + clock_source::recent_error, std::max(time, std::chrono::nanoseconds{0})),
        now);
    return errc::ok;
  }
  // Resumes those whose time is over, as far as the poll has time. False: one of them has closed the node.
  bool resume_due(std::chrono::nanoseconds now) {
    // What is due now has an end: a sleep that begins here ends later. So it does not count as messages do.
    std::size_t woken = 0;
    while (auto* const one = static_cast<sleeper*>(wheel_.take_due(now))) {
      one->result = errc::ok;
      one->waiting.resume();
      if (node_.closed)
        return false;
      if (++woken % poll_progress::per_look == 0 && node_.is_late())
        break;
    }
    return true;
  }
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept { return wheel_.next(); }
  // The node has ended.
  void close() noexcept {
    while (auto* const one = static_cast<sleeper*>(wheel_.take_any())) {
      one->result = errc::closed;
      if (!node_.is_forked())
        one->waiting.resume();
    }
  }

 private:
  node_context& node_;
  timer_wheel wheel_;
};

}  // namespace atbus::detail
