/// @file
/// Coroutines for handlers that wait: a task, several tasks at once, a limit on how many go on at
/// the same time, and the start of a task from ordinary code.
///
/// ```cpp
/// atbus::task<int> count(atbus::node& node, atbus::bus_id shard) {
///   auto reply = co_await node.command(shard, "count", 2s);
///   co_return reply ? std::stoi(std::string{reply->text()}) : 0;
/// }
///
/// atbus::task<> answer(atbus::node& node, atbus::command c) {
///   auto [a, b] = co_await atbus::when_all(count(node, 2), count(node, 3));   // both at once
///   c.reply(std::to_string(a + b));
/// }
///
/// node.on_command("count", [&](atbus::command& c) {
///   atbus::start(answer(node, c.detach()), [](std::exception_ptr) { ... });
/// });
/// ```
///
/// Stack: neither the number of awaits nor the depth of tasks that await each other makes the stack
/// grow while they run, in any build. Destroying a task that has begun but not ended destroys the
/// tasks it awaits recursively.
///
/// Parameters: a coroutine keeps a copy of each parameter that is passed by value. A reference must
/// refer to something that outlives the task. A lambda's captures are not copied: the lambda must
/// outlive its coroutine.
///
/// GCC 12 compiles `while (co_await x)` wrongly, and destroys a temporary that owns memory twice if
/// it stands inside a co_await. Give both a name: `const auto ok = co_await x; if (!ok) break;`.
///
/// Threads: one. A task, and all that it awaits or that awaits it, are created, resumed and
/// destroyed on one thread; nothing here is synchronized. A coroutine must not be destroyed while
/// it runs.
///
/// Errors: a task carries exceptions of its coroutine to the coroutine that awaits it. Calling a
/// coroutine throws std::bad_alloc if there is no memory for its frame. Misuse is asserted.
#pragma once

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "atbus/detail/permit_queue.hpp"
#include "atbus/detail/task_promise.hpp"

namespace atbus {

namespace detail {
struct task_access;
}

/// A coroutine with a result. It begins when it is awaited, and is awaited once: `co_await f()`, or
/// `co_await std::move(t)`. Its exception, if any, is thrown by `co_await`.
///
/// T may be void, an lvalue reference, or any type that can be moved. A task owns its coroutine:
/// destroying it also destroys a coroutine that has not begun. Once awaited, the awaiting coroutine
/// owns it.
template <class T = void>
class [[nodiscard]] task {
 public:
  static_assert(!std::is_rvalue_reference_v<T>, "a task gives a value or an lvalue reference");
  /// For the compiler: what makes a function that returns a task a coroutine.
  using promise_type = detail::task_promise<T>;

  /// Takes the coroutine over; `other` is empty afterwards.
  task(task&& other) noexcept = default;
  /// Destroys the current coroutine, then takes the other one over; `other` is empty afterwards.
  task& operator=(task&& other) noexcept = default;
  ~task() = default;

  /// Whether there is a coroutine: false once it was moved away or awaited.
  explicit operator bool() const noexcept { return static_cast<bool>(frame_); }

  /// Begins the coroutine and waits for its end. The task is empty afterwards; awaiting an empty
  /// task is asserted.
  detail::task_awaiter<T> operator co_await() && noexcept {
    return detail::task_awaiter<T>{std::move(frame_)};
  }

 private:
  friend promise_type;
  friend detail::task_access;
  explicit task(promise_type& promise) noexcept : frame_(promise) {}

  detail::task_frame<T> frame_;
};

namespace detail {

struct task_access {
  template <class T>
  static task_frame<T>& frame(task<T>& of) noexcept {
    return of.frame_;
  }
};

/// In a tuple, a task without a result has a std::monostate.
template <class T>
using tuple_value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// A vector holds references as std::reference_wrapper.
template <class T>
using vector_value = std::conditional_t<std::is_reference_v<T>,
                                        std::reference_wrapper<std::remove_reference_t<T>>, T>;

/// Awaits tasks that end in any order. They need no frame beside their own.
template <class... Ts>
class [[nodiscard]] when_all_tuple {
 public:
  explicit when_all_tuple(task<Ts>... tasks) noexcept
      : frames_(std::move(task_access::frame(tasks))...) {}

  bool await_ready() const noexcept { return sizeof...(Ts) == 0; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    // One more than there are tasks: the last one must not resume the coroutine that starts them.
    group_ = {.waiting = waiting, .unfinished = sizeof...(Ts) + 1};
    std::apply([&](auto&... frame) { (frame.begin_in(group_), ...); }, frames_);
    return --group_.unfinished > 0;
  }
  std::tuple<tuple_value<Ts>...> await_resume() {
    return std::apply(
        [](auto&... frame) { return std::tuple<tuple_value<Ts>...>{take<Ts>(frame)...}; }, frames_);
  }

 private:
  template <class T>
  static tuple_value<T> take(task_frame<T>& frame) {
    if constexpr (std::is_void_v<T>) {
      frame.take();
      return {};
    } else {
      return frame.take();
    }
  }

  std::tuple<task_frame<Ts>...> frames_;
  task_group group_;
};

/// The same for a number of tasks that is known when the program runs.
template <class T>
class [[nodiscard]] when_all_vector {
 public:
  explicit when_all_vector(std::vector<task<T>> tasks) noexcept : tasks_(std::move(tasks)) {}

  bool await_ready() const noexcept { return tasks_.empty(); }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    group_ = {.waiting = waiting, .unfinished = tasks_.size() + 1};
    for (task<T>& each : tasks_)
      task_access::frame(each).begin_in(group_);
    return --group_.unfinished > 0;
  }
  auto await_resume() {
    if constexpr (std::is_void_v<T>) {
      for (task<T>& each : tasks_)
        task_access::frame(each).take();
    } else {
      std::vector<vector_value<T>> results;
      results.reserve(tasks_.size());
      for (task<T>& each : tasks_)
        results.push_back(task_access::frame(each).take());
      return results;
    }
  }

 private:
  std::vector<task<T>> tasks_;
  task_group group_;
};

}  // namespace detail

/// Awaits all of the tasks: `auto [a, b] = co_await when_all(f(), g())`. It begins them in order of
/// the arguments, each until it waits for something, and goes on when the last one has ended. The
/// result is a std::tuple with one element a task: T, a reference for `task<T&>`, and
/// std::monostate for `task<void>`.
///
/// If tasks throw, the exception of the first one in order of the arguments is thrown, after all
/// have ended; other results and exceptions are dropped. Nothing is allocated. A `task<void>` that ends
/// without an exception is destroyed at once, the others when `co_await` has given their results.
/// Destroying the awaiting coroutine destroys all tasks.
template <class... Ts>
[[nodiscard]] detail::when_all_tuple<Ts...> when_all(task<Ts>... tasks) noexcept {
  return detail::when_all_tuple<Ts...>{std::move(tasks)...};
}

/// The same for any number of tasks of one type. The result is a std::vector of T in order of the
/// tasks, of std::reference_wrapper for `task<T&>`, and void for `task<void>`. Only that vector is
/// allocated.
template <class T>
[[nodiscard]] detail::when_all_vector<T> when_all(std::vector<task<T>> tasks) noexcept {
  return detail::when_all_vector<T>{std::move(tasks)};
}

namespace detail {

/// A coroutine that runs at once and destroys itself at its end.
struct detached {
  struct promise_type {
    detached get_return_object() const noexcept { return {.has_begun = true}; }
    static detached get_return_object_on_allocation_failure() noexcept {
      return {.has_begun = false};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { assert(false && "run_detached throws nothing"); }
  };
  bool has_begun;
};

template <class OnError>
void report(OnError& on_error, std::exception_ptr what) noexcept {
  try {
    on_error(std::move(what));
  } catch (...) {  // Documented: nothing else could be told.
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// GCC counts a coroutine frame as a class that other files could name, and warns if OnError is a
// lambda of an included file.
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

/// The arguments are moved from only if there is memory for the frame. Nothing refers to them after
/// the first suspension.
template <class OnError>
#if defined(__clang__)
// Clang before 17 cannot combine this check with coroutines that are templates or inline.
[[clang::no_sanitize("function")]]
#endif
detached
run_detached(task<void>& what, OnError& on_error) {
  task<void> own_what = std::move(what);
  OnError own_on_error = std::move(on_error);
  std::exception_ptr failure;
  try {
    co_await std::move(own_what);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure)
    report(own_on_error, std::move(failure));
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace detail

/// Starts a task that nothing awaits, as handlers of a node do. The task runs until it waits for
/// something; then `start` returns. Its frame destroys itself when the task ends. That something
/// which resumes the task must do so at some time, or the frame is never destroyed.
///
/// An exception of the task is passed to `on_error(std::exception_ptr)`, also std::bad_alloc if
/// `start` itself finds no memory; the task has then not begun. What on_error throws is dropped.
template <class OnError>
requires std::invocable<OnError&, std::exception_ptr> &&
    std::is_nothrow_move_constructible_v<OnError>
void start(task<void> what, OnError on_error) noexcept {
  assert(what && "a task that was moved away or awaited before");
  if (!detail::run_detached(what, on_error).has_begun)
    detail::report(on_error, std::make_exception_ptr(std::bad_alloc{}));
}

/// Limits how many coroutines are in a part of their work at the same time:
///
/// ```cpp
/// atbus::concurrency_limit limit{8};
///
/// atbus::task<> load(atbus::concurrency_limit& limit, int id) {
///   auto permit = co_await limit.acquire();      // waits while 8 others load
///   if (!permit) co_return;                      // the limit was destroyed
///   co_await load_now(id);
/// }                                              // gives the permit back
/// ```
///
/// Permits are given first come, first served. A coroutine that is destroyed while it waits leaves
/// the queue. Waiting and giving back allocate nothing. acquire works in any coroutine type; one
/// that lets an exception out of `resume` must not use it.
///
/// Destroying a limit resumes all coroutines that wait for it, with an empty permit, before the
/// destructor returns; they must not use the limit any more. Permits may outlive the limit; giving
/// them back then has no effect.
///
/// Threads: one; see the head of this file.
class concurrency_limit {
 public:
  /// The right to go on. Gives itself back when it is destroyed. Move-only.
  class [[nodiscard]] permit {
   public:
    /// An empty permit.
    permit() noexcept = default;
    /// Takes the permit over; `other` is empty afterwards.
    permit(permit&& other) noexcept = default;
    /// Gives the current permit back, then takes `other` over; it is empty afterwards.
    permit& operator=(permit&& other) noexcept {
      permit taken{std::move(other)};
      release();
      queue_ = std::move(taken.queue_);
      return *this;
    }
    ~permit() { release(); }

    /// False for an empty permit: it was moved away or given back, or its limit was destroyed
    /// before it could be acquired.
    explicit operator bool() const noexcept { return queue_ != nullptr; }

    /// Gives the permit back; it is empty afterwards. The coroutine that has waited longest gets
    /// it, and runs until it waits for something; then this returns. If this is called by a
    /// coroutine that runs because another permit of the same limit is being given back, that one
    /// goes on first, and the next one is resumed when it waits or has ended.
    void release() noexcept {
      if (const auto queue = std::move(queue_))
        queue->give_back();
    }

   private:
    friend class concurrency_limit;
    explicit permit(detail::permit_queue::reference queue) noexcept : queue_(std::move(queue)) {}

    detail::permit_queue::reference queue_;
  };

  /// What `co_await limit.acquire()` waits for.
  class [[nodiscard]] acquire_awaitable {
   public:
    acquire_awaitable(const acquire_awaitable&) = delete;
    acquire_awaitable& operator=(const acquire_awaitable&) = delete;
    /// Leaves the queue if it still waits.
    ~acquire_awaitable() {
      if (waiter_.is_listed)
        queue_->remove(waiter_);
    }

    /// Takes a permit if one is available. True: the coroutine goes on at once.
    [[nodiscard]] bool await_ready() noexcept {
      waiter_.has_permit = !queue_->is_closed() && queue_->try_take();
      return waiter_.has_permit || queue_->is_closed();
    }
    /// Joins the queue.
    void await_suspend(std::coroutine_handle<> waiting) noexcept {
      waiter_.coroutine = waiting;
      queue_->append(waiter_);
    }
    /// The permit; empty if the limit was destroyed.
    permit await_resume() noexcept {
      return std::exchange(waiter_.has_permit, false) ? permit{queue_->share()} : permit{};
    }

   private:
    friend class concurrency_limit;
    explicit acquire_awaitable(detail::permit_queue::reference queue) noexcept
        : queue_(std::move(queue)) {}

    detail::permit_queue::reference queue_;
    detail::permit_queue::waiter waiter_;
  };

  /// At most `most` permits exist at a time; at least 1, which is asserted.
  explicit concurrency_limit(std::size_t most) : queue_(detail::permit_queue::make(most)) {
    assert(most > 0 && "a limit that nothing could pass");
  }
  concurrency_limit(const concurrency_limit&) = delete;
  concurrency_limit& operator=(const concurrency_limit&) = delete;
  /// Resumes all that wait, with an empty permit.
  ~concurrency_limit() { queue_->close(); }

  /// `co_await limit.acquire()` gives a permit, as soon as there is one for it.
  [[nodiscard]] acquire_awaitable acquire() noexcept { return acquire_awaitable{queue_->share()}; }

  /// How many permits could be acquired now.
  [[nodiscard]] std::size_t available() const noexcept { return queue_->available(); }
  /// How many coroutines wait for a permit.
  [[nodiscard]] std::size_t waiting() const noexcept { return queue_->waiting(); }

 private:
  detail::permit_queue::reference queue_;
};

}  // namespace atbus
