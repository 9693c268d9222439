// What tests of tasks are made of: something to wait for, something to run in, and what shows how
// far the stack has grown.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "atbus/task.hpp"

namespace atbus::test {

// One coroutine waits here until `open`.
class gate {
 public:
  struct awaiter {
    explicit awaiter(gate& at) noexcept : here(&at) {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() {
      if (here->waiting_ == me)
        here->waiting_ = nullptr;
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept { here->waiting_ = me = waiting; }
    void await_resume() const noexcept {}

    gate* here;
    std::coroutine_handle<> me;
  };

  awaiter operator co_await() noexcept { return awaiter{*this}; }
  [[nodiscard]] bool is_awaited() const noexcept { return static_cast<bool>(waiting_); }
  void open() { std::exchange(waiting_, nullptr).resume(); }

 private:
  std::coroutine_handle<> waiting_;
};

// A coroutine type of somebody else. It begins at once and is destroyed with its object.
class owned_coroutine {
 public:
  struct promise_type {
    owned_coroutine get_return_object() noexcept {
      return owned_coroutine{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };

  owned_coroutine(owned_coroutine&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  owned_coroutine& operator=(owned_coroutine&&) = delete;
  ~owned_coroutine() {
    if (of_)
      of_.destroy();
  }
  [[nodiscard]] bool done() const noexcept { return of_.done(); }

 private:
  explicit owned_coroutine(std::coroutine_handle<promise_type> of) noexcept : of_(of) {}
  std::coroutine_handle<promise_type> of_;
};

inline owned_coroutine run(task<> what) {
  co_await std::move(what);
}

// Runs a task that waits for nothing, and returns its result.
template <class T>
T result_of(task<T> what) {
  std::optional<T> result;
  std::exception_ptr failure;
  const auto keep = [&]() -> owned_coroutine {
    try {
      result.emplace(co_await std::move(what));
    } catch (...) {
      failure = std::current_exception();
    }
  };
  if (!keep().done())
    throw std::logic_error{"the task waits"};
  if (failure)
    std::rethrow_exception(failure);
  return std::move(*result);
}

// Counts how many of its kind exist.
class counted {
 public:
  explicit counted(int& alive) noexcept : alive_(&alive) { ++alive; }
  counted(counted&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
  counted& operator=(counted&&) = delete;
  ~counted() {
    if (alive_ != nullptr)
      --*alive_;
  }

 private:
  int* alive_;
};

// How many bytes of stack lie between the lowest and the highest call of `mark`.
class stack_extent {
 public:
  [[gnu::noinline]] void mark() noexcept {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    low_ = std::min(low_, here);
    high_ = std::max(high_, here);
    ++marks_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return high_ - low_; }
  [[nodiscard]] std::size_t marks() const noexcept { return marks_; }

 private:
  std::uintptr_t low_ = UINTPTR_MAX;
  std::uintptr_t high_ = 0;
  std::size_t marks_ = 0;
};

// More than a few frames of a build without optimization and with sanitizers; less than a hundred.
inline constexpr std::size_t few_frames_bytes = 16 * 1024;

// What is thrown on purpose.
struct planned_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace atbus::test
