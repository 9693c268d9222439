// One socket that carries frames both ways: its send queue, its read buffer, its opening.
//
// Knows no loop and no user: whoever owns it calls it when the socket is ready, hands the frames on
// and decides what a failure means. doc/design/connection.md has the states and rules.
//
// Guarantees:
//  - What was committed leaves in order and whole, or is still in the queue when the link ends.
//  - Our hello goes first, and data follows it at once. Until the other's hello has come, all of it
//    is checked, because the other end may wish so; from then on as agreed.
//  - Writing never raises SIGPIPE, never blocks, and allocates nothing beyond the queue's memory.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "atbus/buffer/send_queue.hpp"
#include "atbus/core/bytes.hpp"
#include "atbus/core/status.hpp"
#include "channel/frame.h"
#include "channel/opening.h"
#include "channel/read_buffer.h"
#include "system/kernel.h"

namespace atbus::detail {

class stream_link {
 public:
  enum class state : std::uint8_t {
    connecting,  // the kernel has not decided yet
    open,        // bytes may flow; see opened()
    closed,      // why() says what ended it
  };

  // `connected`: the socket is. `queue` is empty and this link's alone.
  stream_link(file socket, bool connected, const hello& own, std::unique_ptr<send_queue> queue,
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

  // Writable bytes of one message. Errors: message_too_large (length, limit), would_block (wanted
  // and largest that would fit), out_of_memory, or why the link is closed.
  [[nodiscard]] status claim(std::size_t length, mutable_bytes& payload) noexcept {
    if (length > send_limit_) [[unlikely]]
      return refuse(length);
    mutable_bytes frame;
    const status claimed = queue_->claim(frame_size(length), frame);
    if (!claimed) [[unlikely]] {
      ++refused_;
      return claimed;
    }
    frame_ = frame.data();
    payload = {begin_frame(frame_, frame_kind::data, length), length};
    return {};
  }
  // Of the claimed bytes, `length` are sent.
  void commit(std::size_t claimed, std::size_t length) noexcept {
    queue_->commit(length == claimed ? frame_size(length) : shorten_frame(frame_, length));
    ++sent_;
  }
  void abort() noexcept { queue_->abort(); }

  // Writes as much as the socket takes and the opening allows. True: nothing is left to write, or
  // ever will be.
  bool flush() noexcept;
  [[nodiscard]] bool has_unwritten() const noexcept { return queue_->unwritten() != 0; }
  [[nodiscard]] const send_queue& queue() const noexcept { return *queue_; }
  // Says that nothing follows; what is queued before it is still written by flush().
  void say_goodbye(errc reason) noexcept;
  // Nothing more is written (the other end reads an end of file behind what was).
  void shut_down() noexcept;

  // Hands over the messages that were accepted and not completely written, in order. The other end
  // hands none of them out.
  template <class Each>
  std::size_t unsent(Each&& each) const;

  // --- receiving

  // Reads once and hands out what is complete: `handler(bytes_view)` returns a frame_flow. False:
  // nothing was there, or the link has ended (now() tells).
  template <class Handler>
  bool read(Handler&& handler);
  // The same without reading, for what a handler left behind when it stopped.
  template <class Handler>
  walk_end walk(Handler&& handler);

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

 private:
  [[gnu::cold]] status refuse(std::size_t length) noexcept;
  // One recv into the read buffer. False: nothing was read.
  bool receive() noexcept;
  void settle_opening() noexcept;
  // Makes ready what was committed since the last time: fills in checksums. What is sealed stays.
  void seal_committed() noexcept;
  // Lets go of the frames that are completely written.
  void release_written() noexcept;

  file socket_;
  std::unique_ptr<send_queue> queue_;
  read_buffer reader_;
  std::byte* frame_ = nullptr;  // of the open claim
  std::size_t send_limit_;      // payload bytes
  std::uint64_t sealed_ = 0;    // ready to be written, in the queue's count of committed bytes
  std::uint64_t sent_ = 0;
  std::uint64_t refused_ = 0;
  bool checksums_ = true;  // in what we send; true until settled
  bool settled_ = false;   // what was agreed on is in force
  state state_;
  error why_;
};

template <class Handler>
walk_end stream_link::walk(Handler&& handler) {
  const walk_end ended = reader_.walk([&](frame_kind kind, bytes_view payload) {
    return kind == frame_kind::data ? handler(payload) : frame_flow::go_on;
  });
  if (!settled_ && opened()) [[unlikely]]
    settle_opening();
  if (ended == walk_end::failed)
    close(reader_.reader().problem());
  return ended;
}

template <class Handler>
bool stream_link::read(Handler&& handler) {
  if (!receive())
    return false;
  (void)walk(handler);
  return true;
}

template <class Each>
std::size_t stream_link::unsent(Each&& each) const {
  // Begins with a frame: only whole ones are released. One of which the other end has a part is never
  // handed out there.
  std::size_t count = 0;
  std::array<bytes_view, 64> runs;
  const std::size_t found = queue_->gather_unreleased(runs);
  for (const bytes_view run : std::span{runs}.first(found)) {
    const std::byte* at = run.data();
    std::size_t left = run.size();
    while (left >= frame_header_size) {
      const auto word = load_little_endian<std::uint32_t>(at);
      const std::size_t size = frame_size(frame_length(word));
      if (size > left)
        break;
      if (word >> frame_kind_shift == static_cast<std::uint32_t>(frame_kind::data)) {
        each(bytes_view{at + frame_header_size, frame_length(word)});
        ++count;
      }
      at += size;
      left -= size;
    }
  }
  return count;
}

}  // namespace atbus::detail
