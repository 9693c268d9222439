// One socket that carries frames both ways: opening, reading and writing.
//
// Has no event loop and calls no user code. Its owner calls it when the socket is ready, passes the frames on
// and decides what a failure means. doc/design/connection.md has the states and rules.
//
// With a tls_socket all of it is encrypted. The tag of its records takes the place of checksums.
//
// Guarantees:
//  - This end's hello is sent first, a goodbye last. Between them, bytes committed to the queue leave in
//    order and whole, or are still in the queue when the link ends.
//  - Data follows this end's hello at once. It carries checksums until the peer's hello says that none are
//    wanted.
//  - Bytes of the queue count as written once the kernel has them; with TLS, once it has the whole record
//    that they are in. So a message that is not written never arrives.
//  - Writing never raises SIGPIPE and never blocks. Without TLS it allocates nothing.
//
// One thread.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/detail/send_queue.hpp"
#include "atbus/status.hpp"
#include "channel/common/frame.h"
#include "channel/stream/frame_marks.h"
#include "channel/stream/opening.h"
#include "channel/stream/read_buffer.h"
#include "system/kernel.h"
#include "tls/tls_socket.h"

namespace atbus::detail {

class stream_link {
 public:
  enum class state : std::uint8_t {
    connecting,  // the kernel is connecting
    open,        // bytes may flow; see opened()
    closed,      // why() has the reason
  };

  // `connected`: the socket is connected. `queue` outlives the link, and only the link writes it to a
  // socket. Bytes already in it leave first. Null: this end sends nothing. `tls` null: not encrypted.
  stream_link(file socket, bool connected, const hello& own, send_queue* queue, read_space& space,
              std::unique_ptr<tls_socket> tls = nullptr) noexcept;
  stream_link(const stream_link&) = delete;
  stream_link& operator=(const stream_link&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] state now() const noexcept { return state_; }
  // The other end's hello has arrived.
  [[nodiscard]] bool opened() const noexcept { return reader_.reader().opened(); }
  [[nodiscard]] const error& why() const noexcept { return why_; }
  // Ends the link. The queue keeps unwritten bytes. The first reason stays.
  void close(error why) noexcept;
  // For a forked child.
  void abandon() noexcept;

  // The socket has become writable for the first time.
  void connected() noexcept { state_ = state::open; }

  // --- sending

  // Whether frames queued now need checksums: with TLS no; else yes until the peer's hello arrives, then as
  // agreed.
  [[nodiscard]] bool checks() const noexcept { return checksums_; }
  // The latest `bytes` of the queue are whole frames. `sealed`: their checksums are filled in; otherwise
  // flush() does that.
  void joined(std::size_t bytes, bool sealed) noexcept {
    if (sealed && sealed_ + bytes == queue_->committed())
      sealed_ += bytes;
    marks_.add({.bytes = queue_->committed(), .frames = 0});
  }
  // Writes as much as the socket takes. True: nothing is left to write, the link has ended, or writing has
  // stopped as stop_behind asked.
  bool flush() noexcept;
  // The latest read or write found no memory. The kernel does not report when it has memory again: the owner
  // retries after starved_pause. Meanwhile it watches the socket edge-triggered, because waiting bytes would
  // wake it again and again.
  [[nodiscard]] bool starved() const noexcept { return starved_reading_ || starved_writing_; }
  static constexpr std::chrono::nanoseconds starved_pause = std::chrono::milliseconds{1};
  // The events for which epoll watches the socket.
  // `frames`: whether the owner is going to write frames.
  [[nodiscard]] std::uint32_t interest(bool frames = true) const noexcept {
    return EPOLLIN | (wants_room(frames) ? EPOLLOUT : 0U) | (starved() ? EPOLLET : 0U);
  }
  [[nodiscard]] bool has_unwritten() const noexcept {
    return has_unsent_frames() || (tls_ != nullptr && tls_->pending() != 0);
  }
  // Whether something is left to write that only waits for room in the socket. A TLS handshake waits for the
  // other end.
  [[nodiscard]] bool wants_room(bool frames = true) const noexcept {
    if (tls_ == nullptr)
      return frames && has_unsent_frames();
    return tls_->wants_write() || (frames && tls_->can_write() && has_unsent_frames());
  }
  // Not encrypted, or the TLS handshake is done.
  [[nodiscard]] bool secured() const noexcept { return tls_ == nullptr || tls_->established(); }
  // Brings a TLS handshake on without writing frames. For an end that says nothing before the other has.
  void secure() noexcept;
  // Null: not encrypted.
  [[nodiscard]] const tls_socket* tls() const noexcept { return tls_.get(); }
  // Offers a lane to the other end, or none if there are no descriptors. flush() sends the offer after the
  // hello and before the queue, of which nothing may be written yet.
  void offer_lane(std::uint32_t lane, file segment, file bell) noexcept;
  // Queues a switch: later data goes through the lane. flush() writes it after the queue.
  void say_switch() noexcept;
  // Queues a goodbye. flush() writes it after the queue.
  void say_goodbye(errc reason) noexcept;
  // Ends writing. The other end reads an end of file.
  void shut_down() noexcept;
  // Written frames stay in the queue until the owner releases them: whole frames, never a partly written one.
  void keep_written() noexcept { keeps_written_ = true; }
  // The queue's count of committed bytes up to which bytes have begun to leave: they are written, or are
  // encrypted and wait in the TLS session, and leave even if they are released. Those that wait must not be
  // rewound.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return std::max(on_way_.end, queue_->written());
  }
  // Stops writing `bytes` behind taken(): the rest of a partly written frame. All before it is written when
  // it stops. The owner calls `take_stop` after each flush, and then flushes again.
  void stop_behind(std::size_t bytes) noexcept { stop_at_ = taken() + bytes; }
  [[nodiscard]] bool take_stop() noexcept { return std::exchange(stopped_, false); }
  // Keeps reading after a write has failed: the other end may have sent messages before it ended.
  void read_on() noexcept { reads_on_ = true; }
  // Writing has failed; the link lives until reading ends too.
  [[nodiscard]] bool writes_no_more() const noexcept { return !write_failure_; }
  // Bytes that the other end's kernel has not acknowledged; 0 if the socket has no acknowledgements.
  [[nodiscard]] std::size_t unacknowledged() const noexcept;

  // The peer's message limit in payload bytes; this end's own limit until the peer's hello arrives.
  [[nodiscard]] std::size_t send_limit() const noexcept { return send_limit_; }

  // --- receiving

  // Reads once. False: nothing was there, the link has ended (now() tells), or received bytes have to be
  // walked first. `peek`: copies only the first most_peeked bytes, and the kernel keeps them until the next
  // read or the end. TCP then acknowledges them later, so the acknowledgement does not delay the message and
  // its answer. Only for an owner that reads again soon: until then epoll reports the socket as readable. With
  // TLS it has no effect.
  bool receive(bool peek = false) noexcept;
  static constexpr std::size_t most_peeked = 4096;
  // Whether that read was short: most likely nothing more is there.
  [[nodiscard]] bool drained() const noexcept { return drained_; }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept {
    return tls_ == nullptr ? bytes_read_ : tls_->bytes_read();
  }
  // How often it was read, also in vain: nothing was there, there was no memory, or TLS did not go on.
  [[nodiscard]] std::uint64_t reads() const noexcept { return reads_; }
  // Whether there was a read at all, even one that found nothing.
  [[nodiscard]] bool was_read() const noexcept { return drained_ || bytes_read_ != 0; }
  // Bytes that wait in the kernel.
  [[nodiscard]] std::size_t unread() const noexcept;
  // Whether messages may wait in the TLS session, of which the kernel knows nothing.
  [[nodiscard]] bool holds_unread() const noexcept {
    return state_ == state::open && !drained_ && tls_ != nullptr && tls_->holds_unread();
  }
  // Lends the next messages; returns `stopped` if there are any. The borrower calls checksum_holds for each
  // checked message, and reject if it is wrong. It gives the run back before any other call.
  walk_end lend(frame_run& run) noexcept {
    return walked(reader_.lend(
        run, [&](frame_kind /*control*/, bytes_view payload) { return control_seen(payload); }));
  }
  void give_back(const frame_run& run) noexcept { reader_.give_back(run); }
  void reject(bytes_view message) noexcept;
  // Makes lend() stop after the peer's hello and after its offer of lanes, so that the owner handles these
  // before messages.
  void stop_when_opened() noexcept { stops_when_opened_ = true; }
  // For an unproven peer: limits its messages to so many payload bytes, and a read to little more than such
  // a message.
  void limit_reading(std::uint32_t payload_max) noexcept {
    reader_.set_limit(payload_max);
    most_read_ = frame_size(payload_max);
  }
  void lift_limit() noexcept {
    reader_.set_limit(frame_payload_max);
    most_read_ = static_cast<std::size_t>(-1);
  }
  // Whether to accept descriptors from the other end, which must be a process of the same user.
  void take_descriptors(bool wanted) noexcept;
  // Goes to another thread with what it has read; it may be closed and end before it settles in. False: there is no
  // memory for that.
  [[nodiscard]] bool leave_space() noexcept {
    if (tls_ != nullptr)
      tls_->leave_buffers();
    return reader_.leave_space();
  }
  // Has come to this thread, with what it reads into and encrypts into from now on.
  void settle_in(read_space& space, tls_buffers& buffers) noexcept {
    reader_.settle_in(space);
    if (tls_ != nullptr)
      tls_->settle_in(buffers);
  }
  // The session in the other end's hello.
  [[nodiscard]] std::uint64_t peer_session() const noexcept {
    return reader_.reader().agreed().peer_session;
  }
  [[nodiscard]] bool agreed_lanes() const noexcept { return reader_.reader().agreed().lanes; }
  // The lane that the other end has offered: nothing yet, a lane, or no_lane.
  [[nodiscard]] std::optional<std::uint32_t> offered_lane() const noexcept { return offered_; }
  [[nodiscard]] bool agreed_lane_pair() const noexcept {
    return reader_.reader().agreed().lane_pair;
  }
  // As above, only once.
  [[nodiscard]] std::optional<std::uint32_t> take_offered_lane() noexcept {
    return std::exchange(offered_, std::nullopt);
  }
  // The descriptors of the offer, each once.
  [[nodiscard]] file take_segment() noexcept { return std::move(taken_[0]); }
  [[nodiscard]] file take_bell() noexcept { return std::move(taken_[1]); }
  // The other end has switched to its lane; lend() has stopped there.
  [[nodiscard]] bool switched() const noexcept { return switched_; }
  // The other end has said goodbye.
  [[nodiscard]] bool ended_by_goodbye() const noexcept { return reader_.reader().goodbye(); }

 private:
  // Applies the frames that were walked.
  walk_end walked(walk_end ended) noexcept {
    if (!settled_ && opened()) [[unlikely]]
      settle_opening();
    if (ended == walk_end::failed)
      end_badly();
    return ended;
  }
  void settle_opening() noexcept;
  [[nodiscard]] frame_flow control_seen(bytes_view payload) noexcept;
  [[nodiscard]] ssize_t receive_into(mutable_bytes place, bool peek) noexcept;
  // Removes peeked bytes from the kernel. Returns as recv does: not positive if some are left.
  ssize_t take_peeked() noexcept;
  void say(bytes_view frame) noexcept;
  [[gnu::cold]] void end_badly() noexcept;
  [[nodiscard]] bool has_unsent_frames() const noexcept {
    return opening_written_ != opening_size_ || unwritten() != 0 ||
           closing_written_ != closing_size_;
  }
  struct outgoing;
  // Collects what is to be written next: nothing while ciphertext waits in the TLS session.
  void gather(outgoing& next) noexcept;
  // Writes the pieces, or what waits in the TLS session, as sendmsg does.
  [[nodiscard]] ssize_t send(std::span<const iovec> pieces) noexcept;
  // The kernel, or the TLS session, has taken the first `bytes` of this.
  void took(const outgoing& from, std::size_t bytes) noexcept;
  [[nodiscard]] error broken(const char* what, int code) const noexcept;
  // Unwritten bytes of the queue; 0 after the first byte of a switch or a goodbye.
  [[nodiscard]] std::size_t unwritten() const noexcept {
    return queue_ == nullptr || closing_written_ != 0 || !write_failure_ ? 0 : queue_->unwritten();
  }
  void fail_writing(int code) noexcept;
  // Fills in the checksums of frames committed since the last call.
  void seal_committed() noexcept;
  void written(std::size_t bytes) noexcept;
  // As above, for what the TLS session has sent since the last call. Keeps errno.
  void note_sent() noexcept;
  // Release completely written frames: most of them, or all.
  void release_most() noexcept;
  void release_all() noexcept;

  file socket_;
  std::unique_ptr<tls_socket> tls_;
  send_queue* queue_;
  read_buffer reader_;
  frame_marks marks_;
  // Sent before the queue: hello and the offer of lanes, which may be followed by its withdrawal. After the
  // queue: switch, goodbye.
  std::array<std::byte, frame_size(hello_size) + 2 * frame_size(lanes_size)> opening_;
  std::size_t opening_size_ = frame_size(hello_size);
  std::size_t opening_written_ = 0;
  std::array<std::byte, frame_size(switch_size) + frame_size(goodbye_size)> closing_{};
  std::size_t closing_size_ = 0;
  std::size_t closing_written_ = 0;
  std::size_t send_limit_;  // payload bytes
  // The end of the bytes queued before the link began, which have no marks; in committed bytes.
  std::uint64_t backlog_end_ = 0;
  std::uint64_t sealed_ =
      0;                   // the end of the sealed frames, in the queue's count of committed bytes
  bool checksums_ = true;  // sent frames carry checksums
  bool settled_ = false;   // the agreement is in force
  bool drained_ = false;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t reads_ = 0;
  bool starved_reading_ = false;
  bool starved_writing_ = false;
  bool takes_descriptors_ = false;
  bool switched_ = false;
  bool goodbye_said_ = false;
  bool keeps_written_ = false;
  bool reads_on_ = false;
  bool stops_when_opened_ = false;
  // The bytes of the queue that the TLS session has taken and the kernel has not, in the count of committed
  // bytes. While there are any, nothing more is taken.
  struct {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  } on_way_;
  std::uint64_t sent_plain_ = 0;  // the session's count, as note_sent has last seen it
  std::uint64_t stop_at_ = 0;     // where writing stops, in the same count; 0: nowhere
  bool stopped_ = false;
  std::size_t most_read_ = static_cast<std::size_t>(-1);  // most bytes of one read
  std::size_t peeked_ = 0;  // bytes that are both in the kernel and in reader_
  error write_failure_;
  std::optional<std::uint32_t> offered_;
  std::array<file, 2> given_;  // segment and bell to be sent
  std::array<file, 2> taken_;
  state state_;
  error why_;
};

}  // namespace atbus::detail
