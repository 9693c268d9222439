// The timers of a node's endpoints and links, on the node's clock.
//
// A timer is a member of the object that it serves, and leaves the queue when that object is destroyed. One
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace atbus::detail {

class timer_queue;

class timer {
 public:
  // `run` is called when the timer is due. It may set the timer again, and destroy the timer's owner.
  timer(timer_queue& queue, std::function<void()> run);
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer();

  void replace(std::function<void()> run) { run_ = std::move(run); }
  // Sets or replaces the time. Never allocates.
  void set(std::chrono::nanoseconds due) noexcept;
  void cancel() noexcept;
  [[nodiscard]] bool pending() const noexcept { return place_ != nowhere; }
  [[nodiscard]] std::chrono::nanoseconds due() const noexcept { return due_; }

 private:
  friend class timer_queue;
  timer_queue& queue_;
  std::function<void()> run_;
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
  std::chrono::nanoseconds due_{0};
  std::size_t place_ = nowhere;  // in the queue
};

class timer_queue {
 public:
  static constexpr std::chrono::nanoseconds never = std::chrono::nanoseconds::max();

  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    return heap_.empty() ? never : heap_.front().due;
  }
  // Runs the timers that are due, each at most once, so that the call ends.
  void run(std::chrono::nanoseconds now) {
    std::size_t most = heap_.size();
    while (most-- != 0 && next() <= now) {
      timer& due = *heap_.front().of;
      remove(due);
      // A copy, because the call may destroy the timer.
      if (const auto run = due.run_; run)
        run();
    }
  }

 private:
  friend class timer;
  struct entry {
    std::chrono::nanoseconds due;
    std::uint64_t order;  // order of timers that are due at the same time
    timer* of;

    bool operator<(const entry& other) const noexcept {
      return due != other.due ? due < other.due : order < other.order;
    }
  };

  void make_room_for_one() {
    if (timers_ == heap_.capacity())
      heap_.reserve(std::max<std::size_t>(16, 2 * timers_));
    ++timers_;
  }
  void add(timer& fresh) noexcept {
    const entry last{fresh.due_, ++order_, &fresh};
    heap_.push_back(last);
    rise(heap_.size() - 1, last);
  }
  void remove(timer& gone) noexcept {
    const std::size_t free = std::exchange(gone.place_, timer::nowhere);
    const entry last = heap_.back();
    heap_.pop_back();
    if (free == heap_.size())
      return;
    if (free != 0 && last < heap_[(free - 1) / 2])
      rise(free, last);
    else
      sink(free, last);
  }
  void put(std::size_t place, const entry& what) noexcept {
    heap_[place] = what;
    what.of->place_ = place;
  }
  void rise(std::size_t place, const entry& what) noexcept {
    for (; place != 0 && what < heap_[(place - 1) / 2]; place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    put(place, what);
  }
  void sink(std::size_t place, const entry& what) noexcept {
    for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child])
        ++child;
      if (what < heap_[child])
        break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, what);
  }

  std::vector<entry> heap_;  // the next timer in front; has room for all timers
  std::size_t timers_ = 0;
  std::uint64_t order_ = 0;
};

inline timer::timer(timer_queue& queue, std::function<void()> run)
    : queue_(queue), run_(std::move(run)) {
  queue_.make_room_for_one();
}

inline timer::~timer() {
  cancel();
  --queue_.timers_;
}

inline void timer::set(std::chrono::nanoseconds due) noexcept {
  cancel();
  due_ = due;
  queue_.add(*this);
}

inline void timer::cancel() noexcept {
  if (pending())
    queue_.remove(*this);
}

}  // namespace atbus::detail
