// A dialled connection as a sender: resolving, dialling, the queue, and what happens to the queue when the
// connection is lost.
//
//    resolving -> connecting -> linked -> ended
//        ^            |           |
//        '--- waiting <-----------'      only if it dials again
//
// Through a Unix socket the receiver may offer a lane of shared memory. Then the socket carries the earlier
// messages and a switch frame, and all later messages go through the lane, by the code of shm://
// (sender_state). The socket reports the death of the receiver: the sender reads it from time to time, after
// a message.
//
// Guarantees:
//  - Accepted messages leave in order and whole. Those still in the queue when the sender ends are taken
//    back, or reported by close. A message that was partly written when the connection was lost is sent
//    again whole. A message that was written completely is handled, or lost with the receiver.
//  - Only open, flush, wait_writable and close block, each until its deadline. While a receiver is dying,
//    take_back and a close that reports block for at most `dying_time`.
//
// Threads: the sender's one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "atbus/address.hpp"
#include "atbus/detail/send_queue.hpp"
#include "atbus/detail/sender_backend.hpp"
#include "channel/shm/sender_state.h"
#include "channel/stream/dialler.h"
#include "channel/stream/opening.h"
#include "channel/stream/read_buffer.h"
#include "channel/stream/stream_link.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "tls/tls_access.h"

namespace atbus::detail {

class stream_sender final : public sender_backend, public fork_guard {
 public:
  [[nodiscard]] static result<sender_backend*> open(const address& where,
                                                    const sender_options& options);

  status flush(std::chrono::nanoseconds timeout) override;
  status wait_writable(std::chrono::nanoseconds timeout, std::size_t length) override;
  [[nodiscard]] int descriptor() override { return epoll_.get(); }
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  bool poll_writable() override;
  result<std::size_t> take_back(const std::function<void(bytes_view, errc)>& each) override;
  [[nodiscard]] bool receiver_alive() noexcept override;
  [[nodiscard]] channel_stats stats() const override;
  [[nodiscard]] std::uint32_t lane() const noexcept override { return 0; }
  std::size_t finish(std::chrono::nanoseconds linger,
                     const std::function<void(bytes_view)>& unsent) override;
  void ride_on_loop() noexcept override { on_loop_ = true; }

  void abandon_in_child() noexcept override;

 private:
  enum class phase : std::uint8_t { resolving, connecting, linked, waiting, ended };

  stream_sender(const address& where, const sender_options& options, tls_sessions tls,
                bool wants_checksums, bool offers_lanes);
  ~stream_sender() override;

  [[nodiscard]] status make_room(std::uint64_t size) noexcept override;
  [[nodiscard]] bool has_left_lane() noexcept;
  [[nodiscard]] bool leave_ended_lane() noexcept;
  void leave_lane_that_ended() noexcept;
  void answer_alert() noexcept override;
  // Once a millisecond, a sender in a lane checks its socket for the death of the receiver.
  [[nodiscard]] bool is_look_due() noexcept;
  [[nodiscard]] status new_chunk(std::size_t length) noexcept override;
  [[nodiscard]] status claim_chunk(std::size_t length) noexcept;
  void commit_chunk() noexcept;
  void publish_frames() noexcept override;
  void stop() noexcept override;
  void destroy() noexcept override;

  // Begins a new attempt: looks up the name, or dials.
  void begin() noexcept;
  void take_answer() noexcept;
  void dial_next() noexcept;
  // The part of that time for the address that is dialled: each that is left has one too.
  [[nodiscard]] std::chrono::nanoseconds share_of(std::chrono::nanoseconds time) const noexcept;
  void attempt_ended(error how) noexcept;
  [[nodiscard]] error no_answer() const noexcept;
  void connected() noexcept;
  // Ends a failed attempt or connection.
  void lost(error why) noexcept;
  void link_ended() noexcept;  // the link has closed itself and has the reason
  // Writes through the link, and ends it if it has closed itself.
  void flush_link() noexcept;
  // Whether the TLS handshake has a time limit: where the sender can dial again, or has another address to try. A
  // silent host would keep it from that for ever.
  [[nodiscard]] bool limits_handshake() const noexcept {
    return !link_->secured() && (dialler_.dials_again() || dialler_.has_next());
  }
  void end(error why) noexcept;
  [[nodiscard]] status usable() const noexcept;
  [[nodiscard]] status wait_connected(std::chrono::nanoseconds timeout) noexcept;

  // Writes as much as the kernel takes.
  void write_now() noexcept;
  void read_controls() noexcept;
  // Waits for events up to `timeout_ns` (negative: no limit) and handles them.
  void look(std::int64_t timeout_ns) noexcept;
  // False: the kernel refused, and the connection is lost.
  bool set_interest() noexcept;
  [[nodiscard]] bool fits(std::size_t length) noexcept;
  [[nodiscard]] bool has_unwritten() const noexcept;
  void linger(std::chrono::nanoseconds longest) noexcept;

  // Handles the receiver's offer of a lane, or its refusal.
  void take_offer() noexcept;
  // Writes the rest of the queue through the socket, then moves on to the lane. True: done.
  bool move_on_to_lane() noexcept;
  // Called when the lane's receiver is gone.
  void leave_lane() noexcept;
  // If the lane holds messages to take back: blocks until the lock of a dying receiver is free, or the
  // receiver is known to live.
  void wait_for_lock() const noexcept;
  // Takes the lane's messages back into the queue. False: the receiver's lock has not ended yet, or there is
  // no memory for them.
  bool empty_lane() noexcept;
  // False: there is no memory.
  [[nodiscard]] bool claim_for_lane(mutable_bytes& place) noexcept;
  void forget_left_lane() noexcept;

  bool local_;  // through a Unix socket
  std::string text_;
  sender_options options_;
  hello own_;
  read_space space_;
  tls_sessions tls_;
  tls_buffers tls_buffers_;
  std::unique_ptr<send_queue> queue_;
  std::unique_ptr<stream_link> link_;
  dialler dialler_;
  std::chrono::nanoseconds attempt_time_;
  std::chrono::nanoseconds lane_left_at_{0};
  std::chrono::nanoseconds looked_at_{0};  // last look at the socket while in the lane
  std::uint64_t step_ = 0;                 // bytes of the lane until the next look
  sender_state* lane_ = nullptr;           // taken; in use once through_stream_ is false
  std::optional<held_lane> left_lane_;     // the first lane left since the latest claim
  file epoll_;
  phase phase_ = phase::ended;
  error why_;                   // why it ended, or why the last attempt failed
  std::uint32_t watched_ = 0;   // epoll's events for the socket
  std::uint64_t write_at_ = 0;  // write when the queue's count of committed bytes reaches this
  std::size_t refused_length_ = no_length;
  std::chrono::nanoseconds attempt_ends_at_{0};
  // Connecting, and with a handshake that has a limit: when to give up; waiting: when to dial again.
  std::chrono::nanoseconds due_{0};
  std::uint64_t full_ = 0;
  std::uint64_t connections_ = 0;
  std::uint64_t tls_failed_ = 0;
  unsigned writes_ = 0;  // while it is open
  std::uint64_t high_water_mark_ = 0;
  bool on_loop_ = false;
  bool offer_awaited_ = false;  // of a lane, agreed on in the opening
  bool switch_said_ = false;
  bool asks_again_ = false;  // a listener's backlog is full: the next dial is of the same attempt
  bool no_memory_ = false;   // for what is waited for: nothing tells when there is some again
  bool forked_ = false;

  static constexpr std::size_t no_length = static_cast<std::size_t>(-1);
};

}  // namespace atbus::detail
