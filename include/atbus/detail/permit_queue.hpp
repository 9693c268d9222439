/// @file
/// The shared part of a concurrency_limit, its permits, and the coroutines that wait for one.
/// Programs include atbus/task.hpp.
#pragma once

#include <coroutine>
#include <cstddef>
#include <memory>
#include <utility>

namespace atbus::detail {

/// Counts free permits, and holds the list of those that wait for one. It lives as long as anything
/// refers to it, so that a permit may outlive its limit. One thread only.
class permit_queue {
 public:
  /// An element of the list; it is a part of the coroutine that waits.
  struct waiter {
    std::coroutine_handle<> coroutine;
    waiter* before = nullptr;
    waiter* after = nullptr;
    bool is_listed = false;
    bool has_permit = false;
  };

  struct drop {
    void operator()(permit_queue* queue) const noexcept {
      if (--queue->references_ == 0)
        delete queue;
    }
  };
  using reference = std::unique_ptr<permit_queue, drop>;

  static reference make(std::size_t most) { return reference{new permit_queue{most}}; }
  reference share() noexcept {
    ++references_;
    return reference{this};
  }

  std::size_t available() const noexcept { return available_; }
  std::size_t waiting() const noexcept { return waiting_; }
  bool is_closed() const noexcept { return is_closed_; }

  /// Takes a permit, unless others wait for it.
  bool try_take() noexcept {
    if (available_ == 0 || first_ != nullptr)
      return false;
    --available_;
    return true;
  }

  void append(waiter& w) noexcept {
    w.before = last_;
    w.after = nullptr;
    w.is_listed = true;
    (last_ != nullptr ? last_->after : first_) = &w;
    last_ = &w;
    ++waiting_;
  }

  void remove(waiter& w) noexcept {
    (w.before != nullptr ? w.before->after : first_) = w.after;
    (w.after != nullptr ? w.after->before : last_) = w.before;
    w.is_listed = false;
    --waiting_;
  }

  /// Returns a permit, and resumes those that it suffices for. What they return meanwhile is passed
  /// on by the outermost call, so that the stack does not grow with the number of waiters. The
  /// caller holds a reference meanwhile: a coroutine may destroy the limit.
  void give_back() noexcept {
    ++available_;
    if (is_resuming_ || is_closed_)
      return;
    is_resuming_ = true;
    while (available_ > 0 && first_ != nullptr) {
      --available_;
      resume_first(true);
    }
    is_resuming_ = false;
  }

  /// Resumes all that wait, without a permit. Nothing waits here afterwards.
  void close() noexcept {
    is_closed_ = true;
    while (first_ != nullptr)
      resume_first(false);
  }

 private:
  explicit permit_queue(std::size_t most) noexcept : available_(most) {}

  void resume_first(bool with_permit) noexcept {
    waiter& w = *first_;
    remove(w);
    w.has_permit = with_permit;
    w.coroutine.resume();
  }

  std::size_t available_;
  std::size_t waiting_ = 0;
  std::size_t references_ = 1;
  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
  bool is_closed_ = false;
  bool is_resuming_ = false;
};

}  // namespace atbus::detail
