#include "channel/loop_binding.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace atbus::detail {
namespace {

template <class Handle>
uv_handle_t* as_handle(Handle& handle) noexcept {
  return reinterpret_cast<uv_handle_t*>(&handle);
}

}  // namespace

error loop_binding::start(uv_loop_t* loop, int descriptor) {
  loop_ = loop;
  // The duplicate shares the channel's epoll instance. When the channel has closed its sockets and its
  // descriptor, at most the eventfds of living senders are left in it, and nobody waits for it any more.
  {
    const fork_pause no_fork;
    descriptor_ = file{::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)};
  }
  if (!descriptor_)
    return {errc::system_error, "can't duplicate the channel's descriptor for the loop", errno};
  uv_prepare_init(loop, &prepare_);
  uv_check_init(loop, &check_);
  uv_idle_init(loop, &idle_);
  uv_timer_init(loop, &timer_);
  open_handles_ = 4;
  prepare_.data = check_.data = idle_.data = timer_.data = this;
  if (const int code = uv_poll_init(loop, &poll_, descriptor_.get()); code != 0) {
    return {errc::system_error,
            std::string{"libuv can't watch the channel's descriptor: "} + uv_strerror(code), -code};
  }
  poll_open_ = true;
  open_handles_ = 5;
  poll_.data = this;
  // Only the prepare handle decides whether the loop stays alive.
  uv_unref(as_handle(check_));
  uv_unref(as_handle(idle_));
  uv_unref(as_handle(timer_));
  uv_unref(as_handle(poll_));
  uv_prepare_start(&prepare_, [](uv_prepare_t* handle) {
    loop_binding& self = from(handle->data);
    self.forked_ ? self.retire() : self.before_wait();
  });
  uv_check_start(&check_, [](uv_check_t* handle) { from(handle->data).after_wait(); });
  return {};
}

void loop_binding::sleep(std::chrono::nanoseconds longest) noexcept {
  uv_idle_stop(&idle_);
  if (!watching_) {
    watching_ = uv_poll_start(&poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
                  from(handle->data).woken_ = true;
                }) == 0;
  }
  if (longest < std::chrono::nanoseconds{0}) {
    uv_timer_stop(&timer_);
  } else {
    const auto ms =
        static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(longest).count());
    // A running timer that ends earlier is harmless: the loop wakes and sleeps again.
    if (uv_is_active(as_handle(timer_)) == 0 || ms < uv_timer_get_due_in(&timer_)) {
      uv_timer_start(
          &timer_, [](uv_timer_t* handle) { from(handle->data).woken_ = true; }, ms, 0);
    }
  }
}

void loop_binding::stay_awake() noexcept {
  uv_idle_start(&idle_, [](uv_idle_t*) {});
}

void loop_binding::rest() noexcept {
  uv_idle_stop(&idle_);
  uv_timer_stop(&timer_);
  if (watching_)
    uv_poll_stop(&poll_);
  watching_ = false;
}

void loop_binding::retire() noexcept {
  rest();
  uv_prepare_stop(&prepare_);
  uv_check_stop(&check_);
}

void loop_binding::rethrow() {
  if (exception_ != nullptr)
    std::rethrow_exception(std::exchange(exception_, nullptr));
}

void loop_binding::handler_done(std::exception_ptr left) noexcept {
  in_handler_ = false;
  if (let_go_) {
    drop_handler();
    delete_if_closed();
  } else if (left != nullptr) {
    exception_ = std::move(left);
    rest();
    // Stop the loop, so that the caller of uv_run sees the exception.
    uv_stop(loop_);
  }
}

void loop_binding::let_go() noexcept {
  let_go_ = true;
  close_channel();
  if (!in_handler_)
    drop_handler();
  if (open_handles_ == 0)
    return delete_if_closed();
  const auto close = [](uv_handle_t* handle) {
    uv_close(handle, [](uv_handle_t* closed) {
      loop_binding& self = from(closed->data);
      --self.open_handles_;
      self.delete_if_closed();
    });
  };
  close(as_handle(prepare_));
  close(as_handle(check_));
  close(as_handle(idle_));
  close(as_handle(timer_));
  if (poll_open_)
    close(as_handle(poll_));
  const fork_pause no_fork;
  descriptor_.reset();  // libuv no longer watches it
}

void loop_binding::delete_if_closed() noexcept {
  if (!let_go_ || open_handles_ != 0 || in_handler_)
    return;
  exception_ = nullptr;  // user code: destroyed outside of the fork_pause
  const fork_pause no_fork;
  delete this;
}

void loop_binding::abandon_in_child() noexcept {
  forked_ = true;
  const int number = descriptor_.get();
  if (number < 0)
    return;
  // Closed first, which makes room for another one.
  descriptor_.reset();
  const int inert = ::epoll_create1(EPOLL_CLOEXEC);
  if (inert < 0)
    return;
  if (inert != number) {
    (void)::dup3(inert, number, O_CLOEXEC);
    (void)::close(inert);
  }
  descriptor_ = file{number};
}

}  // namespace atbus::detail
