// The common base of receivers and connection sets: both call handlers that may end them.
//
// Guarantees:
//  - A handler may close or destroy the public object, fork, or throw. The implementation lasts until the
//    dispatch frame ends. Dispatches do not nest.
//  - Problems are reported one by one, and never after the public object has closed.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

class ATBUS_API dispatcher {
 public:
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  [[nodiscard]] status usable() const noexcept {
    if (interrupted_ == interruption::none) [[likely]]
      return {};
    return interrupted_ == interruption::forked ? errc::used_after_fork : errc::closed;
  }
  // As usable(), for verbs that wait: a handler must not call them, because it runs within poll.
  [[nodiscard]] status may_wait() const noexcept {
    const status able = usable();
    return able && dispatching_ ? status{errc::invalid_argument} : able;
  }
  // Called within a handler: the running poll ends when the handler returns.
  virtual void end_poll() noexcept { poll_ends_ = true; }
  // Called when the public object closes. Ends this object at once, or when the dispatch frame ends.
  void release() noexcept;

 protected:
  enum class interruption : std::uint8_t { none, closed, forked };

  dispatcher() = default;
  virtual ~dispatcher();

  // Keeps it alive while a handler may destroy the public object; refuses nested dispatch.
  class dispatch_frame {
   public:
    explicit dispatch_frame(dispatcher& of) noexcept
        : of_(of), entered_(!of.dispatching_ && of.interrupted_ == interruption::none) {
      if (entered_) {
        of.dispatching_ = true;
        of.poll_ends_ = false;
      }
    }
    ~dispatch_frame() {
      if (entered_)
        of_.end_dispatch();
    }
    dispatch_frame(const dispatch_frame&) = delete;
    dispatch_frame& operator=(const dispatch_frame&) = delete;
    [[nodiscard]] bool entered() const noexcept { return entered_; }

   private:
    dispatcher& of_;
    bool entered_;
  };

  // Queues a problem for tell_problems.
  void problem(error what) noexcept;
  // As problem(), at most one per second: unproven peers may cause any number of these.
  void report(error what) noexcept;
  [[nodiscard]] bool has_problems() const noexcept {
    return !problems_.empty() && on_problem_ != nullptr;
  }
  // Called within a dispatch. Returns false if the public object has closed, or in a forked child.
  bool tell_problems();

  // Called at the end of a dispatch, while handlers may still be called.
  virtual void finish_dispatch() noexcept {}
  // Called at the end of the dispatch in which the public object closed.
  virtual void stop() noexcept = 0;
  // Deletes this, within a fork_pause.
  virtual void destroy() noexcept = 0;

  // Within a dispatch.
  [[nodiscard]] bool goes_on() const noexcept {
    return interrupted_ == interruption::none && !poll_ends_;
  }

  interruption interrupted_ = interruption::none;
  bool poll_ends_ = false;
  bool dispatching_ = false;
  void set_on_problem(std::function<void(const error&)> handler) {
    on_problem_ =
        handler ? std::make_shared<const std::function<void(const error&)>>(std::move(handler))
                : nullptr;
  }

  // Shared, because it may replace itself while it runs, and a copy of the function may need memory.
  std::shared_ptr<const std::function<void(const error&)>> on_problem_;

 private:
  void end_dispatch() noexcept;
  void end() noexcept;

  bool owned_ = true;
  std::vector<error> problems_;  // not reported yet; at most a few, if there is no handler
  std::chrono::nanoseconds next_report_at_{0};
};

}  // namespace atbus::detail
