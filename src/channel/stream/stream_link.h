// One socket that carries frames both ways: what it reads, what it writes, its opening.
//
// Knows no loop and no user: whoever owns it calls it when the socket is ready, hands the frames on
// and decides what a failure means. doc/design/connection.md has the states and rules.
//
// Guarantees:
//  - Our hello goes first, a goodbye last. Between them what is committed to the queue leaves in
//    order and whole, or is still in the queue when the link ends.
//  - Data follows our hello at once. It carries checksums until the other's hello has told that
//    none are wanted.
//  - Writing never raises SIGPIPE, never blocks and allocates nothing.
//
// One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/detail/send_queue.hpp"
#include "atbus/status.hpp"
#include "channel/common/frame.h"
#include "channel/stream/frame_marks.h"
#include "channel/stream/opening.h"
#include "channel/stream/read_buffer.h"
#include "system/kernel.h"

namespace atbus::detail {

class stream_link {
 public:
  enum class state : std::uint8_t {
    connecting,  // the kernel has not decided yet
    open,        // bytes may flow; see opened()
    closed,      // why() says what ended it
  };

  // `connected`: the socket is. `queue` outlives the link and is written by nobody else; what is in
  // it leaves first. Null: this end sends nothing.
  stream_link(file socket, bool connected, const hello& own, send_queue* queue,
              read_space& space) noexcept;
  stream_link(const stream_link&) = delete;
  stream_link& operator=(const stream_link&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] state now() const noexcept { return state_; }
  // The other end's hello has arrived.
  [[nodiscard]] bool opened() const noexcept { return reader_.reader().opened(); }
  [[nodiscard]] const error& why() const noexcept { return why_; }
  // Ends it. The queue keeps what was not written; the first reason stays.
  void close(error why) noexcept;
  // In a forked child.
  void abandon() noexcept;

  // The socket has become writable for the first time.
  void connected() noexcept { state_ = state::open; }

  // --- sending

  // Whether frames that are queued now need checksums: until the other's hello has come, and then if
  // they are agreed on.
  [[nodiscard]] bool checks() const noexcept { return checksums_; }
  // The latest `bytes` of the queue are whole frames. `sealed`: with their checksums filled in; else
  // flush() does it.
  void joined(std::size_t bytes, bool sealed) noexcept {
    if (sealed && sealed_ + bytes == queue_->committed())
      sealed_ += bytes;
    marks_.add({.bytes = queue_->committed(), .frames = 0});
  }
  // Writes as much as the socket takes. True: nothing is left to write, or ever will be, or it has
  // stopped where stop_behind said.
  bool flush() noexcept;
  // The latest read or write found no memory. Nobody tells when there is some: whoever owns the link
  // tries again after starved_pause, and watches the socket edge-triggered meanwhile, since what is
  // there already would wake it for ever.
  [[nodiscard]] bool starved() const noexcept { return starved_reading_ || starved_writing_; }
  static constexpr std::chrono::nanoseconds starved_pause = std::chrono::milliseconds{1};
  // What epoll is to watch the socket for.
  [[nodiscard]] std::uint32_t interest() const noexcept {
    return EPOLLIN | (has_unwritten() ? EPOLLOUT : 0U) | (starved() ? EPOLLET : 0U);
  }
  [[nodiscard]] bool has_unwritten() const noexcept {
    return opening_written_ != opening_size_ || unwritten() != 0 ||
           closing_written_ != closing_size_;
  }
  // Which lane the other end may use, ahead of what is queued, of which nothing is written yet;
  // flush() sends it, behind our hello. Without descriptors: none.
  void offer_lane(std::uint32_t lane, file segment, file bell) noexcept;
  // Says that no data follows, because it goes through the lane; flush() writes it behind what is
  // queued.
  void say_switch() noexcept;
  // Says that nothing follows; flush() writes it behind what is queued.
  void say_goodbye(errc reason) noexcept;
  // Nothing more is written (the other end reads an end of file behind what was).
  void shut_down() noexcept;
  // What is written stays in the queue until its owner releases it: whole frames, and none of which
  // only a part is written.
  void keep_written() noexcept { keeps_written_ = true; }
  // Writing stops once so many more bytes of the queue are written: the rest of the frame of which a
  // part is. Whoever waits for its end asks `take_stop` after each flush, and flushes again.
  void stop_behind(std::size_t bytes) noexcept { stop_behind_ = bytes; }
  [[nodiscard]] bool take_stop() noexcept { return std::exchange(stopped_, false); }
  // Who finds nobody to write to goes on reading: what the other end sent before it went is there.
  void read_on() noexcept { reads_on_ = true; }
  // Writing has failed; the link lives until reading ends too.
  [[nodiscard]] bool writes_no_more() const noexcept { return !write_failure_; }
  // Bytes that the other end's kernel has not acknowledged; 0 where there is no such thing.
  [[nodiscard]] std::size_t unacknowledged() const noexcept;

  // The most the other end takes, in payload bytes; our own limit until it has said so.
  [[nodiscard]] std::size_t send_limit() const noexcept { return send_limit_; }

  // --- receiving

  // One read. False: nothing was there, or the link has ended (now() tells), or what is there has to
  // be walked first. `peek`: of the first most_peeked bytes, which the kernel keeps until the next read
  // or the end; a TCP one acknowledges them only then, which takes longer than to hand out a message
  // and to answer it. For whoever reads again soon: until then epoll says that something is there.
  bool receive(bool peek = false) noexcept;
  static constexpr std::size_t most_peeked = 4096;
  // Whether that read took less than it had room for: most likely nothing more is there.
  [[nodiscard]] bool drained() const noexcept { return drained_; }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  // Whether there was a read at all, also one that found nothing.
  [[nodiscard]] bool was_read() const noexcept { return drained_ || bytes_read_ != 0; }
  // Bytes that the kernel has for us.
  [[nodiscard]] std::size_t unread() const noexcept;
  // Lends the messages that come next: `stopped` if there are any. Whoever has them asks
  // checksum_holds before believing a checked one, else calls reject, and gives the run back before
  // the next call of any kind.
  walk_end lend(frame_run& run) noexcept {
    return walked(reader_.lend(
        run, [&](frame_kind /*control*/, bytes_view payload) { return control_seen(payload); }));
  }
  void give_back(const frame_run& run) noexcept { reader_.give_back(run); }
  void reject(bytes_view message) noexcept;
  // lend() stops behind the other end's hello, and behind what it says of lanes, so that its user
  // hears of it before the messages.
  void stop_when_opened() noexcept { stops_when_opened_ = true; }
  // Of an end that has proven nothing yet: its messages have at most so many payload bytes, and one
  // read takes little more than such a message.
  void limit_reading(std::uint32_t payload_max) noexcept {
    reader_.set_limit(payload_max);
    most_read_ = frame_size(payload_max);
  }
  void lift_limit() noexcept {
    reader_.set_limit(frame_payload_max);
    most_read_ = static_cast<std::size_t>(-1);
  }
  // Whether descriptors that the other end sends are taken: those of a process of the same user only.
  void take_descriptors(bool wanted) noexcept;
  [[nodiscard]] bool agreed_lanes() const noexcept { return reader_.reader().agreed().lanes; }
  // What the other end has said of lanes: nothing yet, or one of them, or no_lane.
  [[nodiscard]] std::optional<std::uint32_t> offered_lane() const noexcept { return offered_; }
  [[nodiscard]] bool agreed_lane_pair() const noexcept {
    return reader_.reader().agreed().lane_pair;
  }
  // The same, once.
  [[nodiscard]] std::optional<std::uint32_t> take_offered_lane() noexcept {
    return std::exchange(offered_, std::nullopt);
  }
  // Those that came with it, each once.
  [[nodiscard]] file take_segment() noexcept { return std::move(taken_[0]); }
  [[nodiscard]] file take_bell() noexcept { return std::move(taken_[1]); }
  // The other end's data goes through its lane from here on: lend() has stopped there.
  [[nodiscard]] bool switched() const noexcept { return switched_; }
  // The other end has said that nothing follows.
  [[nodiscard]] bool ended_by_goodbye() const noexcept { return reader_.reader().goodbye(); }

 private:
  // What follows from the frames that were walked.
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
  // Takes what was only looked at. As recv: what is not positive says that some of it is left.
  ssize_t take_peeked() noexcept;
  void say(bytes_view frame) noexcept;
  [[gnu::cold]] void end_badly() noexcept;
  // Of the queue. Behind the first byte of a switch or a goodbye nothing of it follows.
  [[nodiscard]] std::size_t unwritten() const noexcept {
    return queue_ == nullptr || closing_written_ != 0 || !write_failure_ ? 0 : queue_->unwritten();
  }
  void fail_writing(int code) noexcept;
  // Makes ready what was committed since the last time: fills in checksums. What is sealed stays.
  void seal_committed() noexcept;
  void written(std::size_t bytes) noexcept;
  // Lets go of frames that are completely written: of most of them, or of all.
  void release_most() noexcept;
  void release_all() noexcept;

  file socket_;
  send_queue* queue_;
  read_buffer reader_;
  frame_marks marks_;
  // Ahead of the queue: hello, offer of lanes. Behind it: switch, goodbye.
  // An offer may be followed by word that nothing came of it.
  std::array<std::byte, frame_size(hello_size) + 2 * frame_size(lanes_size)> opening_;
  std::size_t opening_size_ = frame_size(hello_size);
  std::size_t opening_written_ = 0;
  std::array<std::byte, frame_size(switch_size) + frame_size(goodbye_size)> closing_{};
  std::size_t closing_size_ = 0;
  std::size_t closing_written_ = 0;
  std::size_t send_limit_;  // payload bytes
  // What was queued when the link began, which has no marks; in the queue's count of committed bytes.
  std::uint64_t backlog_end_ = 0;
  std::uint64_t sealed_ = 0;  // ready to be written, in the queue's count of committed bytes
  bool checksums_ = true;     // of what we send
  bool settled_ = false;      // what was agreed on is in force
  bool drained_ = false;
  std::uint64_t bytes_read_ = 0;
  bool starved_reading_ = false;
  bool starved_writing_ = false;
  bool takes_descriptors_ = false;
  bool switched_ = false;
  bool goodbye_said_ = false;
  bool keeps_written_ = false;
  bool reads_on_ = false;
  bool stops_when_opened_ = false;
  std::size_t stop_behind_ = 0;  // bytes still to be written before writing stops; 0: it does not
  bool stopped_ = false;
  std::size_t most_read_ = static_cast<std::size_t>(-1);  // bytes at a time
  std::size_t peeked_ = 0;  // bytes that the kernel has and reader_ too
  error write_failure_;
  std::optional<std::uint32_t> offered_;
  std::array<file, 2> given_;  // segment and bell, on their way out
  std::array<file, 2> taken_;
  state state_;
  error why_;
};

}  // namespace atbus::detail
