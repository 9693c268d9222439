// The common base of receivers, senders and connection sets on a libuv loop: the handles, their lifetime,
// and the exception that must not cross libuv's frames.
//
// A turn of a libuv loop: timers, idle, prepare, wait for descriptors, check, close callbacks. In
// `prepare` the channel is asked whether it can sleep; the poll handle watches its bell; an active
// idle handle keeps the loop from waiting; in `check` the channel gets its turn.
//
// Lifetime: made with new, ended with `let_go`. libuv uses the handles until each close callback has run;
// the last one deletes the object. The channel and the handler end at once, or when the running handler has
// returned.
//
// Fork: a child shares the loop's epoll instance with its parent until it calls uv_loop_fork. libuv names an
// entry there by descriptor and file. So in the child this binding's descriptor becomes another file, and
// what the child does with its handles never touches the parent's entry.
#pragma once

#include <uv.h>

#include <chrono>
#include <exception>

#include "atbus/status.hpp"
#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {

// Made inside a fork_pause. Deletes itself when libuv has closed its handles. No other code may delete it.
class loop_binding : public fork_guard {  // NOLINT(cppcoreguidelines-virtual-class-destructor)
 public:
  loop_binding(const loop_binding&) = delete;
  loop_binding& operator=(const loop_binding&) = delete;

  // Duplicates `descriptor`, which belongs to the channel, so that the channel may close it at any time. On
  // failure the caller calls let_go.
  [[nodiscard]] error start(uv_loop_t* loop, int descriptor);
  void let_go() noexcept;
  void rethrow();
  [[nodiscard]] bool failed() const noexcept { return exception_ != nullptr; }
  void ref() noexcept { uv_ref(reinterpret_cast<uv_handle_t*>(&prepare_)); }
  void unref() noexcept { uv_unref(reinterpret_cast<uv_handle_t*>(&prepare_)); }

  void abandon_in_child() noexcept override;

 protected:
  loop_binding() = default;
  virtual ~loop_binding() = default;

  virtual void before_wait() = 0;
  virtual void after_wait() = 0;
  // Called once: closes the channel.
  virtual void close_channel() noexcept = 0;
  // Called once, and never while a handler runs: drops the handler.
  virtual void drop_handler() noexcept {}

  // Runs `call`, which calls a handler. If the result is false, the handler has ended this binding or has
  // thrown: the caller may only check `ended()` and return.
  template <class Call>
  bool guarded(Call&& call) noexcept;
  [[nodiscard]] bool ended() const noexcept { return let_go_ || exception_ != nullptr; }

  // The loop may wait until the bell rings or `longest` has passed (negative: no limit).
  void sleep(std::chrono::nanoseconds longest) noexcept;
  // The loop must not wait.
  void stay_awake() noexcept;
  // The loop may wait, and this binding does not wake it.
  void rest() noexcept;
  // As rest, and this binding no longer keeps the loop alive.
  void retire() noexcept;

  bool woken_ = false;  // the bell rang or the longest sleep is over

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
  bool forked_ = false;  // a child's copy
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
