// What a receiver and a sender on a libuv loop have in common: the handles, their lifetime, and the
// exception that may not cross libuv's frames.
//
// A turn of a libuv loop: timers, idle, prepare, wait for descriptors, check, close callbacks. In
// `prepare` the channel is asked whether it can sleep; the poll handle watches its bell; an active
// idle handle keeps the loop from waiting; in `check` the channel gets its turn.
//
// Life: made with new, ended with `let_go`. libuv looks at the handles until each close callback
// has run; the last one deletes the object. The channel and the handler are gone at once, or when
// the handler that runs just now has returned.
#pragma once

#include <uv.h>

#include <chrono>
#include <exception>

#include "atbus/status.hpp"
#include "system/kernel.h"

namespace atbus::detail {

// It deletes itself, when libuv is through with it, and nobody else may.
class loop_binding {  // NOLINT(cppcoreguidelines-virtual-class-destructor)
 public:
  loop_binding(const loop_binding&) = delete;
  loop_binding& operator=(const loop_binding&) = delete;

  // `descriptor` is the channel's; it is duplicated, so that the channel may close its own at any
  // time. On failure the caller lets go.
  [[nodiscard]] error start(uv_loop_t* loop, int descriptor);
  void let_go() noexcept;
  void rethrow();
  [[nodiscard]] bool failed() const noexcept { return exception_ != nullptr; }
  void ref() noexcept { uv_ref(reinterpret_cast<uv_handle_t*>(&prepare_)); }
  void unref() noexcept { uv_unref(reinterpret_cast<uv_handle_t*>(&prepare_)); }

 protected:
  loop_binding() = default;
  virtual ~loop_binding() = default;

  virtual void before_wait() = 0;
  virtual void after_wait() = 0;
  // Called once: closes the channel.
  virtual void close_channel() noexcept = 0;
  // Called once, and never while a handler runs: drops the handler.
  virtual void drop_handler() noexcept {}

  // Runs `call`, which calls a handler. Nothing but `ended()` may be asked afterwards before
  // returning if it says false: the handler has let this binding go, or left an exception.
  template <class Call>
  bool guarded(Call&& call) noexcept;
  [[nodiscard]] bool ended() const noexcept { return let_go_ || exception_ != nullptr; }

  // The loop may wait: until the bell rings, or `longest` has passed (negative: for ever).
  void sleep(std::chrono::nanoseconds longest) noexcept;
  // The loop must not wait.
  void stay_awake() noexcept;
  // The loop may wait and nothing of ours ends that.
  void rest() noexcept;
  // As rest; and no longer keeps the loop alive.
  void retire() noexcept;

  bool woken_ = false;  // by the bell or by the end of the longest sleep

 private:
  void handler_done(std::exception_ptr left) noexcept;
  void delete_if_closed() noexcept;
  static loop_binding& from(void* data) noexcept { return *static_cast<loop_binding*>(data); }

  uv_prepare_t prepare_;
  uv_check_t check_;
  uv_idle_t idle_;
  uv_timer_t timer_;
  uv_poll_t poll_;
  uv_loop_t* loop_ = nullptr;
  file descriptor_;
  std::exception_ptr exception_;
  int open_handles_ = 0;
  bool poll_open_ = false;
  bool watching_ = false;
  bool in_handler_ = false;
  bool let_go_ = false;
};

template <class Call>
bool loop_binding::guarded(Call&& call) noexcept {
  in_handler_ = true;
  std::exception_ptr left;
  try {
    call();
  } catch (...) {
    left = std::current_exception();
  }
  const bool goes_on = !let_go_ && left == nullptr;
  handler_done(std::move(left));
  return goes_on;
}

}  // namespace atbus::detail
