// The implementation behind `atbus::receiver`: a base class with one subclass for each kind of channel.
// Programs include atbus/receiver.hpp.
//
// Threads: the receiver's one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/dispatcher.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// One message as a handler may ask for it (a handler may also take just the bytes).
struct received_message {
  bytes_view bytes;        ///< The message in place; valid until the handler returns.
  std::uint32_t lane = 0;  ///< The sender's lane or connection; a sender keeps it until it closes.
  bool redelivered = false;   ///< An earlier receiver died while it handled this message.
  std::uint64_t session = 0;  ///< Which sender it is that has the lane: receiver::session.
};

namespace detail {

using lane_note = std::array<std::uint64_t, 3>;

enum class backend_kind : std::uint8_t { lanes, streams };

class ATBUS_API receiver_backend : public dispatcher {
 public:
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
  // Lanes override these.
  [[nodiscard]] virtual std::uint64_t session(std::uint32_t) const noexcept { return 0; }
  [[nodiscard]] virtual std::uint64_t session_changes() const noexcept { return 0; }
  [[nodiscard]] virtual bool has_sender(std::uint32_t) const noexcept { return false; }
  [[nodiscard]] virtual lane_note note(std::uint32_t) const noexcept { return {}; }
  virtual void set_note(std::uint32_t, const lane_note&) noexcept {}
  virtual void pause_lane(std::uint32_t) noexcept {}
  virtual void resume_lane(std::uint32_t) noexcept {}
  virtual void drop_lane(std::uint32_t) noexcept {}

  void on_problem(std::function<void(const error&)> handler);
  // Calls the problem handler, as a dispatch of its own. The handler may close or destroy the receiver, or
  // fork. So call this only when no other work is under way, and touch nothing afterwards unless it returns
  // ok.
  status report_problems() noexcept;

 protected:
  explicit receiver_backend(backend_kind kind) noexcept : kind_(kind) {}
  ~receiver_backend() override;

 private:
  void finish_dispatch() noexcept final;

  backend_kind kind_;
};

}  // namespace detail
}  // namespace atbus
