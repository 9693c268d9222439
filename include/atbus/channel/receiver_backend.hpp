// What `atbus::receiver` stands on: one kind of channel each. Programs include
// atbus/channel/receiver.hpp.
//
// Guarantees:
//  - A handler may close or destroy the receiver, fork, or throw: the backend lasts until the
//    dispatch frame ends. Within a dispatch no other begins.
//  - Problems are told one by one, as dispatches of their own, and never to somebody who has closed
//    the receiver meanwhile.
//
// Threads: the receiver's one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "atbus/channel/channel_options.hpp"
#include "atbus/core/bytes.hpp"
#include "atbus/core/export.hpp"
#include "atbus/core/status.hpp"

namespace atbus {

// One message as a handler may ask for it (a handler may also take just the bytes).
struct received_message {
  bytes_view bytes;          // in place; valid until the handler returns
  std::uint32_t lane = 0;    // the sender's lane or connection; a sender keeps it for its life
  bool redelivered = false;  // an earlier receiver died while it handled this message
};

namespace detail {

enum class backend_kind : std::uint8_t { lanes, streams };

class ATBUS_API receiver_backend {
 public:
  receiver_backend(const receiver_backend&) = delete;
  receiver_backend& operator=(const receiver_backend&) = delete;

  [[nodiscard]] backend_kind kind() const noexcept { return kind_; }

  // As in atbus::receiver.
  virtual status wait(std::chrono::nanoseconds timeout) = 0;
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  virtual bool prepare_sleep() = 0;
  virtual void finish_sleep() = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds longest_sleep() const noexcept = 0;
  [[nodiscard]] virtual channel_stats stats() const = 0;
  [[nodiscard]] virtual std::string address() const = 0;
  [[nodiscard]] virtual std::uint64_t message_limit() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t lane_count() const noexcept = 0;
  virtual error remove() = 0;

  void on_problem(std::function<void(const error&)> handler);
  // Tells the handler what has been found, as a dispatch of its own: it may close or destroy the
  // receiver, or fork. So only where nothing of ours is under way; touch nothing after it unless it
  // says ok.
  status report_problems() noexcept;
  [[nodiscard]] status usable() const noexcept;
  // The public object lets go. Ends the backend, at once or when the dispatch frame ends.
  void release() noexcept;

 protected:
  enum class interruption : std::uint8_t { none, closed, forked };

  explicit receiver_backend(backend_kind kind) noexcept : kind_(kind) {}
  virtual ~receiver_backend();

  // Keeps the backend alive while a handler may destroy the receiver; refuses nested dispatch.
  class dispatch_frame {
   public:
    explicit dispatch_frame(receiver_backend& backend) noexcept
        : backend_(backend),
          entered_(!backend.dispatching_ && backend.interrupted_ == interruption::none) {
      if (entered_)
        backend.dispatching_ = true;
    }
    ~dispatch_frame() {
      if (entered_)
        backend_.end_dispatch();
    }
    dispatch_frame(const dispatch_frame&) = delete;
    dispatch_frame& operator=(const dispatch_frame&) = delete;
    [[nodiscard]] bool entered() const noexcept { return entered_; }

   private:
    receiver_backend& backend_;
    bool entered_;
  };

  // Keeps it for report_problems, or for the end of the dispatch.
  void problem(error what) noexcept;
  [[nodiscard]] bool has_news() const noexcept {
    return !problems_.empty() && static_cast<bool>(on_problem_);
  }
  // The public object has let go, maybe inside a handler: the last thing before the end of the
  // dispatch.
  virtual void stop() noexcept = 0;
  // delete this, within a fork_pause.
  virtual void destroy() noexcept = 0;

  interruption interrupted_ = interruption::none;
  bool dispatching_ = false;

 private:
  void end_dispatch() noexcept;
  void tell_problems() noexcept;
  void end() noexcept;

  backend_kind kind_;
  bool owned_ = true;
  std::function<void(const error&)> on_problem_;
  std::vector<error> problems_;  // not told yet; while nobody asks, at most a few
};

}  // namespace detail
}  // namespace atbus
