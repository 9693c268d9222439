// A deadline in a timer_wheel (src/core/timer_wheel.h), as a member of what waits: also of what users' coroutines
// wait for, so that waiting takes no memory.
//
// One thread.
#pragma once

#include <chrono>

namespace atbus::detail {

class timer_wheel;

// It leaves the wheel when it is destroyed.
class wheel_timer {
 public:
  wheel_timer() = default;
  wheel_timer(const wheel_timer&) = delete;
  wheel_timer& operator=(const wheel_timer&) = delete;
  ~wheel_timer() { cancel(); }

  [[nodiscard]] bool pending() const noexcept { return at_ != nullptr; }
  [[nodiscard]] std::chrono::nanoseconds due() const noexcept { return due_; }
  void cancel() noexcept {
    if (at_ == nullptr)
      return;
    *at_ = next_;
    if (next_ != nullptr)
      next_->at_ = at_;
    at_ = nullptr;
  }

 private:
  friend class timer_wheel;
  void insert_at(wheel_timer*& head) noexcept {
    next_ = head;
    if (next_ != nullptr)
      next_->at_ = &next_;
    head = this;
    at_ = &head;
  }

  wheel_timer* next_ = nullptr;
  wheel_timer** at_ = nullptr;  // what points here; null: it is not in the wheel
  std::chrono::nanoseconds due_{0};
};

}  // namespace atbus::detail
