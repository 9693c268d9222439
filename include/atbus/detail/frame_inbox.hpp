// A stream receiver's dispatch: the part of `atbus::receiver` that is inlined into user code.
// Programs include atbus/receiver.hpp.
//
// Out-of-line code reads the bytes and handles all control frames. The code here finds and checks the
// messages in the read buffer and hands them out in place.
//
// Senders on the same host may move on to lanes of shared memory. A poll looks at the lanes first. It looks
// at the sockets if the lanes are empty, and from time to time in any case. One poll hands out messages of
// the lanes or of the sockets, not of both.
//
// Guarantees:
//  - A handler runs on the bytes in place, once per message, in the order of its connection;
//    connections take turns.
//  - A message whose handler throws counts as handled. A handler may close or destroy the receiver,
//    or fork.
//
// Threads: the receiver's one. Errors: none here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/clock.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/frame.hpp"
#include "atbus/detail/receiver_backend.hpp"
#include "atbus/detail/receiver_core.hpp"

namespace atbus::detail {

class ATBUS_API frame_inbox : public receiver_backend {
 public:
  template <class Handler>
  std::size_t poll(Handler& handler, const poll_limits& limits);
  void end_poll() noexcept override {
    receiver_backend::end_poll();
    if (lanes_ != nullptr)
      lanes_->end_poll();
  }

 protected:
  frame_inbox() noexcept : receiver_backend(backend_kind::streams) {}
  ~frame_inbox() override = default;

  // Makes `run_` begin with a message. Returns false if there is none. `quick`: look only at connections
  // that are known to be busy.
  virtual bool fill(bool quick) noexcept = 0;

  // A message of the run has the wrong checksum: ends its connection and the run.
  virtual void reject(bytes_view message) noexcept = 0;

  receiver_core* lanes_ = nullptr;           // the lanes that senders have moved on to
  unsigned polls_ = 0;                       // polls of lanes since the last look at the sockets
  std::chrono::nanoseconds sockets_due_{0};  // when to look at the sockets in any case
  bool moved_on_ = false;  // a sender has moved on since the last look at the sockets
  frame_run run_;
  std::uint32_t connection_ = 0;  // the connection that `run_` came from
  std::uint64_t messages_ = 0;    // handed out
  std::uint64_t bytes_ = 0;

 private:
  template <class Handler>
  std::size_t poll_frames(Handler& handler, const poll_limits& limits);

  static constexpr std::size_t messages_per_clock = 32;
  static constexpr unsigned polls_per_look = 64;
  // For programs that poll rarely, such as once per frame.
  static constexpr std::chrono::nanoseconds look_interval = std::chrono::milliseconds{1};
};

template <class Handler>
std::size_t frame_inbox::poll(Handler& handler, const poll_limits& limits) {
  const dispatch_frame frame{*this};
  if (!frame.entered())
    return 0;
  bool lanes_due = lanes_ != nullptr;
  // The sockets get a turn of their own, with the full limits, however many messages the lanes hold. The
  // next poll looks at the lanes again, however rarely the program polls.
  const bool is_lanes_turn =
      lanes_due && ++polls_ != polls_per_look && (polls_ == 1 || coarse_now() < sockets_due_);
  if (is_lanes_turn) {
    const std::size_t of_lanes = lanes_->poll(handler, limits);
    if (of_lanes != 0 || !goes_on())
      return of_lanes;
    lanes_due = false;
  }
  polls_ = 0;
  sockets_due_ = lanes_ != nullptr ? coarse_now() + look_interval : sockets_due_;
  const std::size_t of_frames = poll_frames(handler, limits);
  // After its last frame, a sender continues in its lane.
  if (of_frames == 0 && (lanes_due || moved_on_) && goes_on()) [[unlikely]] {
    moved_on_ = false;
    return lanes_->poll(handler, limits);
  }
  return of_frames;
}

template <class Handler>
std::size_t frame_inbox::poll_frames(Handler& handler, const poll_limits& limits) {
  const bool timed = limits.time > std::chrono::nanoseconds{0};
  const std::chrono::nanoseconds deadline = timed ? moment_after(now(), limits.time) : limits.time;
  std::size_t delivered = 0;
  std::uint64_t delivered_bytes = 0;
  // Also when a handler throws.
  struct tally {
    frame_inbox& inbox;
    const std::size_t& messages;
    const std::uint64_t& bytes;
    ~tally() {
      inbox.messages_ += messages;
      inbox.bytes_ += bytes;
    }
  } const counted{*this, delivered, delivered_bytes};
  while (delivered < limits.messages) {
    std::uint64_t length = 0;
    if (!run_.has_next(length)) [[unlikely]] {
      if (!fill(delivered != 0))
        break;
      continue;
    }
    const std::byte* const frame = run_.at;
    const bytes_view bytes{frame + frame_header_size, length};
    // Directly before the user reads the bytes, which then are in the cache.
    if (run_.checked && !checksum_holds(frame)) [[unlikely]] {
      reject(bytes);
      continue;
    }
    // Counted before the call: a message whose handler throws counts as handled.
    run_.at = frame + frame_size(length);
    ++delivered;
    delivered_bytes += length;
    if constexpr (std::is_invocable_v<Handler&, bytes_view>) {
      handler(bytes);
    } else {
      static_assert(std::is_invocable_v<Handler&, const received_message&>,
                    "a handler takes std::span<const std::byte> or const atbus::received_message&");
      handler(received_message{bytes, connection_, false});
    }
    if (!goes_on()) [[unlikely]]
      break;
    if (timed && delivered % messages_per_clock == 0 && now() >= deadline)
      break;
  }
  return delivered;
}

}  // namespace atbus::detail
