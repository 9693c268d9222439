// A coroutine type that is not of atbus, as a program may have: it begins at once, and whoever made it destroys it.
#pragma once

#include <coroutine>
#include <exception>

namespace atbus::test {

struct plain_coroutine {
  struct promise_type {
    plain_coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> frame;
};

}  // namespace atbus::test
