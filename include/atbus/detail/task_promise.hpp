/// @file
/// What a coroutine of type atbus::task consists of. Programs include atbus/task.hpp.
///
/// Control passes between coroutines so that a chain of awaits of any length uses the stack of one.
/// With Clang that is symmetric transfer: await_suspend returns the coroutine to resume, and its
/// call is a tail call in every build. GCC makes it one only from -O2 on and without sanitizers
/// (GCC bug 100897). There, the coroutine returns to a loop, which resumes the next one.
#pragma once

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace atbus {

template <class T>
class task;

namespace detail {

#if defined(__clang__)
inline constexpr bool transfers_are_tail_calls = true;
#else
inline constexpr bool transfers_are_tail_calls = false;
#endif

/// Resumes one coroutine after the other. A loop lives in the await_suspend of the coroutine that
/// something else than a loop has resumed; loops of one thread nest.
class resume_loop {
 public:
  resume_loop(const resume_loop&) = delete;
  resume_loop& operator=(const resume_loop&) = delete;

  /// What the await_suspend of `from` returns, as the last thing it does, to go on with `to`.
  static std::coroutine_handle<> transfer(std::coroutine_handle<> from,
                                          std::coroutine_handle<> to) noexcept {
    if constexpr (transfers_are_tail_calls)
      return to;
    // Only a loop that has itself resumed `from` gets control back as soon as `from` returns.
    if (innermost_ != nullptr && innermost_->running_ == from)
      innermost_->next_ = to;
    else
      resume_loop{}.run(to);
    return std::noop_coroutine();
  }

  /// Called before the frame of an unfinished task is destroyed: no loop resumes it any more. That
  /// it is the next of one happens only if another kind of awaitable resumes a coroutine inside its
  /// await_suspend and then goes on to destroy others.
  static void forget(std::coroutine_handle<> destroyed) noexcept {
    for (resume_loop* loop = innermost_; loop != nullptr; loop = loop->outer_) {
      if (loop->next_ == destroyed)
        loop->next_ = nullptr;
    }
  }

 private:
  resume_loop() noexcept : outer_(std::exchange(innermost_, this)) {}
  ~resume_loop() { innermost_ = outer_; }

  void run(std::coroutine_handle<> first) noexcept {
    next_ = first;
    while (next_) {
      running_ = std::exchange(next_, nullptr);
      running_.resume();
    }
  }

  static inline constinit thread_local resume_loop* innermost_ = nullptr;
  resume_loop* outer_;
  std::coroutine_handle<> running_;
  std::coroutine_handle<> next_;
};

template <class T>
class task_frame;

/// Several tasks that one coroutine awaits: the last one to end resumes it.
struct task_group {
  std::coroutine_handle<> waiting;
  std::size_t unfinished = 0;
};

/// The part of a promise that does not depend on the result: what waits for it, and an exception.
class task_promise_base {
 public:
  struct final_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      return ended.promise().after(ended);
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }

 protected:
  void rethrow_failure() const {
    if (failure_)
      std::rethrow_exception(failure_);
  }

  union {
    std::coroutine_handle<> waiting_{};
    task_group* group_;  // if there is an owner
  };
  void* owner_ = nullptr;  // its task_frame, if it is one of a group
  std::exception_ptr failure_;
};

/// The part that keeps the result. `take` moves it out, or throws the exception.
template <class T>
class task_result : public task_promise_base {
 public:
  template <std::convertible_to<T> U = T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow_failure();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <class T>
class task_result<T&> : public task_promise_base {
 public:
  /// Takes only what `T&` refers to without a temporary.
  template <class U>
  requires std::convertible_to<U*, T*>
  void return_value(U& value) noexcept { value_ = std::addressof(value); }
  T& take() const {
    rethrow_failure();
    return *value_;
  }

 private:
  T* value_ = nullptr;
};

template <>
class task_result<void> : public task_promise_base {
 public:
  void return_void() const noexcept {}
  void take() const { rethrow_failure(); }
};

template <class T>
class task_promise : public task_result<T> {
 public:
  task<T> get_return_object() noexcept { return task<T>{*this}; }

  /// The coroutine to resume at the end.
  void set_waiting(std::coroutine_handle<> waiting) noexcept { this->waiting_ = waiting; }
  /// `owner` stays where it is until the task has ended.
  void join(task_group& group, task_frame<T>& owner) noexcept {
    this->group_ = &group;
    this->owner_ = &owner;
  }
  /// What is to be resumed when the coroutine has ended.
  std::coroutine_handle<> after(std::coroutine_handle<> ended) noexcept {
    return this->owner_ == nullptr ? resume_loop::transfer(ended, this->waiting_)
                                   : leave_group(ended);
  }

 private:
  /// One without a result is destroyed here: thousands may have ended while others of their groups go
  /// on. Not inline: Clang before 17 may keep locals of an inlined await_suspend in the frame.
  [[gnu::noinline]] std::coroutine_handle<> leave_group(std::coroutine_handle<> ended) noexcept {
    task_group& group = *this->group_;
    if constexpr (std::is_void_v<T>) {
      if (!this->failure_)
        static_cast<task_frame<T>*>(this->owner_)->destroy();
    }
    return --group.unfinished > 0 ? std::noop_coroutine()
                                  : resume_loop::transfer(ended, group.waiting);
  }
};

/// Owns the frame of a task.
template <class T>
class task_frame {
 public:
  explicit task_frame(task_promise<T>& promise) noexcept
      : coroutine_(std::coroutine_handle<task_promise<T>>::from_promise(promise)) {}
  task_frame(task_frame&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  task_frame& operator=(task_frame&& other) noexcept {
    task_frame old{std::move(other)};
    std::swap(coroutine_, old.coroutine_);
    return *this;
  }
  ~task_frame() { destroy(); }

  explicit operator bool() const noexcept { return static_cast<bool>(coroutine_); }

  void destroy() noexcept {
    const auto destroyed = std::exchange(coroutine_, nullptr);
    if (!destroyed)
      return;
    if constexpr (!transfers_are_tail_calls) {
      if (!destroyed.done())
        resume_loop::forget(destroyed);
    }
    destroyed.destroy();
  }

  /// Returns what the caller has to resume, once, so that the task begins.
  std::coroutine_handle<> begin(std::coroutine_handle<> waiting) noexcept {
    assert(coroutine_ && "a task that was moved away or awaited before");
    coroutine_.promise().set_waiting(waiting);
    return coroutine_;
  }
  /// Begins it as one of a group. The frame stays where it is until `take`.
  void begin_in(task_group& group) noexcept {
    assert(coroutine_ && "a task that was moved away or awaited before");
    coroutine_.promise().join(group, *this);
    coroutine_.resume();
  }

  /// Moves the result out of a task that has ended, or throws its exception. Of a group, one without a
  /// result may be gone.
  T take() {
    if constexpr (std::is_void_v<T>) {
      if (!coroutine_)
        return;
    }
    assert(coroutine_.done());
    return coroutine_.promise().take();
  }

 private:
  std::coroutine_handle<task_promise<T>> coroutine_;
};

/// What `co_await` of a task makes of it: it owns the frame until the full expression ends.
template <class T>
class [[nodiscard]] task_awaiter {
 public:
  explicit task_awaiter(task_frame<T> frame) noexcept : frame_(std::move(frame)) {}
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    return resume_loop::transfer(waiting, frame_.begin(waiting));
  }
  T await_resume() { return frame_.take(); }

 private:
  task_frame<T> frame_;
};

}  // namespace detail
}  // namespace atbus
