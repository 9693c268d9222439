// What is due when: of a node's endpoints and links. On the node's clock, whatever that is.
//
// A timer is a member of what it belongs to and leaves the queue with it. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

namespace atbus::detail {

class timer_queue;

class timer {
 public:
  // `run` is called when it is due; it may set the timer again, and destroy what it is a member of.
  timer(timer_queue& queue, std::function<void()> run) : queue_(queue), run_(std::move(run)) {}
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer() { cancel(); }

  void replace(std::function<void()> run) { run_ = std::move(run); }
  // Replaces the time it had.
  void set(std::chrono::nanoseconds due);
  void cancel() noexcept;
  [[nodiscard]] bool pending() const noexcept { return pending_; }
  [[nodiscard]] std::chrono::nanoseconds due() const noexcept { return due_; }

 private:
  friend class timer_queue;
  timer_queue& queue_;
  std::function<void()> run_;
  std::chrono::nanoseconds due_{0};
  std::uint64_t order_ = 0;  // among those that are due at a time
  bool pending_ = false;
};

class timer_queue {
 public:
  static constexpr std::chrono::nanoseconds never = std::chrono::nanoseconds::max();

  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    return pending_.empty() ? never : std::get<0>(*pending_.begin());
  }
  // Runs those that are due; none of them twice, so that it ends.
  void run(std::chrono::nanoseconds now) {
    std::size_t most = pending_.size();
    while (most-- != 0 && next() <= now) {
      timer& due = *std::get<timer*>(*pending_.begin());
      pending_.erase(pending_.begin());
      due.pending_ = false;
      // A copy: it may destroy its owner.
      if (const auto run = due.run_; run)
        run();
    }
  }

 private:
  friend class timer;
  std::set<std::tuple<std::chrono::nanoseconds, std::uint64_t, timer*>> pending_;
  std::uint64_t order_ = 0;
};

inline void timer::set(std::chrono::nanoseconds due) {
  cancel();
  due_ = due;
  order_ = ++queue_.order_;
  queue_.pending_.emplace(due, order_, this);
  pending_ = true;
}

inline void timer::cancel() noexcept {
  if (pending_)
    queue_.pending_.erase({due_, order_, this});
  pending_ = false;
}

}  // namespace atbus::detail
