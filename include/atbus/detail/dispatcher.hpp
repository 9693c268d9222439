// What receivers and sets of connections have in common: they call handlers that may end them.
//
// Guarantees:
//  - A handler may close or destroy the public object, fork, or throw: what stands behind it lasts
//    until the dispatch frame ends. Within a dispatch no other begins.
//  - Problems are told one by one, and never to somebody who has let go meanwhile.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
  // The same for what waits: a handler is called within poll, and may not.
  [[nodiscard]] status may_wait() const noexcept {
    const status able = usable();
    return able && dispatching_ ? status{errc::invalid_argument} : able;
  }
  // Within a handler: the poll that runs ends after what it is telling.
  virtual void end_poll() noexcept { poll_ends_ = true; }
  // The public object lets go. Ends it, at once or when the dispatch frame ends.
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

  // Keeps it for tell_problems.
  void problem(error what) noexcept;
  // The same, of one a second: strangers may cause any number of these.
  void report(error what) noexcept;
  [[nodiscard]] bool has_problems() const noexcept {
    return !problems_.empty() && static_cast<bool>(on_problem_);
  }
  // Within a dispatch. False: the public object has let go, or this is a forked child now.
  bool tell_problems();

  // The last thing of a dispatch in which handlers may still be told.
  virtual void finish_dispatch() noexcept {}
  // The public object has let go, maybe inside a handler: the last thing before the end of the
  // dispatch.
  virtual void stop() noexcept = 0;
  // delete this, within a fork_pause.
  virtual void destroy() noexcept = 0;

  // Within a dispatch.
  [[nodiscard]] bool goes_on() const noexcept {
    return interrupted_ == interruption::none && !poll_ends_;
  }

  interruption interrupted_ = interruption::none;
  bool poll_ends_ = false;
  bool dispatching_ = false;
  std::function<void(const error&)> on_problem_;

 private:
  void end_dispatch() noexcept;
  void end() noexcept;

  bool owned_ = true;
  std::vector<error> problems_;  // not told yet; while nobody asks, at most a few
  std::chrono::nanoseconds next_report_at_{0};
};

}  // namespace atbus::detail
