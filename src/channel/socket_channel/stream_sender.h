// A dialled connection as a sender: resolving, dialling, the queue, what becomes of it when the
// connection is lost.
//
//    resolving -> connecting -> linked -> ended
//        ^            |           |
//        '--- waiting <-----------'      only if it is to dial again
//
// Through a Unix socket the receiver may offer a lane of shared memory. Then the socket carries what
// was sent so far and the word that nothing follows (switch); all further messages go through the
// lane, by the code of shm:// (sender_state), and the socket tells of the other's end: it is looked at
// now and then, behind a message.
//
// Guarantees:
//  - What was accepted leaves in order and whole, or is in the queue when the sender ends: to be
//    taken back, or reported by close. A message of which a part was written when the connection was
//    lost goes out again whole; one that was written is the receiver's or lost with it.
//  - Nothing blocks but open, flush, wait_writable and close, each to its deadline; and for at most
//    `dying_time`, beside a receiver that is just dying, take_back and a close that reports.
//
// Threads: the sender's one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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

  stream_sender(const address& where, const sender_options& options, bool wants_checksums,
                bool offers_lanes);
  ~stream_sender() override;

  [[nodiscard]] status make_room(std::uint64_t size) noexcept override;
  [[nodiscard]] bool has_left_lane() noexcept;
  [[nodiscard]] bool leave_ended_lane() noexcept;
  void answer_alert() noexcept override;
  // A sender in its lane asks its socket once a millisecond whether the receiver lives.
  [[nodiscard]] bool is_look_due() noexcept;
  [[nodiscard]] status new_chunk(std::size_t length) noexcept override;
  [[nodiscard]] status claim_chunk(std::size_t length) noexcept;
  void commit_chunk() noexcept;
  void publish_frames() noexcept override;
  void stop() noexcept override;
  void destroy() noexcept override;

  // Begins anew: asks for the name, or dials.
  void begin() noexcept;
  void take_answer() noexcept;
  void dial_next() noexcept;
  void attempt_ended(error how) noexcept;
  [[nodiscard]] error no_answer() const;
  void connected() noexcept;
  // This attempt or connection has failed.
  void lost(error why) noexcept;
  void link_ended() noexcept;  // and says why
  void end(error why) noexcept;
  [[nodiscard]] status usable() const noexcept;
  [[nodiscard]] status wait_connected(std::chrono::nanoseconds timeout) noexcept;

  // Hands the kernel what it takes.
  void write_now() noexcept;
  void read_controls() noexcept;
  // Does what is due, waiting so long for it (negative: for ever).
  void look(std::int64_t timeout_ns) noexcept;
  // False: it could not, and the connection is lost.
  bool set_interest() noexcept;
  [[nodiscard]] bool fits(std::size_t length) noexcept;
  [[nodiscard]] bool has_unwritten() const noexcept;
  void linger(std::chrono::nanoseconds longest) noexcept;

  // The receiver's word about lanes has come.
  void take_offer() noexcept;
  // Sends what is left through the socket and goes over to the lane. True: done.
  bool move_on_to_lane() noexcept;
  // Its receiver is gone.
  void leave_lane() noexcept;
  // Blocks until a receiver that has just died has lost its lock too, or is known to live, if there is
  // something to take back from its lane.
  void wait_for_lock() const noexcept;
  // True: nothing of it is left to do.
  bool empty_lane() noexcept;

  bool local_;  // through a Unix socket
  std::string text_;
  sender_options options_;
  hello own_;
  read_space space_;
  std::unique_ptr<send_queue> queue_;
  std::unique_ptr<stream_link> link_;
  dialler dialler_;
  std::chrono::nanoseconds attempt_time_;
  std::chrono::nanoseconds lane_left_at_{0};
  std::chrono::nanoseconds looked_at_{0};  // the socket, from the lane
  std::uint64_t step_ = 0;                 // bytes of the lane until the next look
  sender_state* lane_ = nullptr;           // taken; in use once through_stream_ is false
  std::shared_ptr<mapping> left_memory_;   // of a lane that was left, until the next claim
  file epoll_;
  phase phase_ = phase::ended;
  error why_;                   // of the end, or of the last attempt that failed
  std::uint32_t watched_ = 0;   // epoll's events for the socket
  std::uint64_t write_at_ = 0;  // in the queue's count of committed bytes: write when it is reached
  std::size_t refused_length_ = no_length;
  std::chrono::nanoseconds due_{0};  // connecting: to give up; waiting: to dial again
  std::uint64_t full_ = 0;
  std::uint64_t connections_ = 0;
  unsigned writes_ = 0;  // while it is open
  std::uint64_t high_water_mark_ = 0;
  bool on_loop_ = false;
  bool offer_awaited_ = false;  // of a lane, agreed on in the opening
  bool switch_said_ = false;
  bool forked_ = false;

  static constexpr std::size_t no_length = static_cast<std::size_t>(-1);
};

}  // namespace atbus::detail
