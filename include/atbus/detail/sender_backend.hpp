// The implementation behind `atbus::sender`: a base class with one subclass for each kind of channel. Its
// hot paths are inlined into user code. Programs include atbus/sender.hpp.
//
// A message goes into a lane of shared memory or, as a frame, into a chunk of a stream's queue. One test
// per message decides which.
//
// Threads: the sender's one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/frame_chunk.hpp"
#include "atbus/detail/lane.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

class ATBUS_API sender_backend {
 public:
  sender_backend(const sender_backend&) = delete;
  sender_backend& operator=(const sender_backend&) = delete;

  // Begins a message with `length` bytes of payload and returns where they go; null and `why` on an error.
  [[nodiscard]] std::byte* claim(std::size_t length, status& why) noexcept {
    if (length > message_limit_) [[unlikely]] {
      why = refuse(length);
      return nullptr;
    }
    if (through_stream_) {
      if (frame_size(length) > chunk_.room()) [[unlikely]] {
        why = next_chunk(length);
        if (!why)
          return nullptr;
        if (!through_stream_)
          return claim(length, why);
      }
      return chunk_.claim(length);
    }
    const std::uint64_t size = record_size(length);
    if (!writer_.fits(size)) [[unlikely]] {
      why = find_room(size);
      if (!why)
        return nullptr;
    }
    return writer_.begin(record_kind::message, length);
  }

  // Identifies the message that a user's slot claimed.
  struct slot_id {
    std::uint64_t number = 0;
    std::uint64_t place = 0;  // its position in the lane
  };
  // For the message that was claimed last. A message that is claimed and appended at once needs none, and
  // saves the store.
  [[nodiscard]] slot_id new_slot() noexcept { return {++slots_, writer_.position()}; }
  // Whether the `claimed` bytes of that slot still wait for their append. A later slot, a refused claim, and
  // whatever moves the writer back or elsewhere, have changed the number; a message of the lane has changed
  // the position, and one of a stream has closed the frame.
  [[nodiscard]] bool is_open(const slot_id& slot, std::size_t claimed) const noexcept {
    if (slot.number != slots_)
      return false;
    return through_stream_ ? chunk_.frame != nullptr
                           : slot.place == writer_.position() && writer_.fits(record_size(claimed));
  }
  // Sends the first `length` of the `claimed` bytes. False: the claim is gone.
  bool append(std::size_t claimed, std::size_t length) noexcept {
    if (through_stream_)
      return chunk_.append(claimed, length);
    // If it does not fit, another verb has moved the writer since the claim and left no room.
    if (!writer_.fits(record_size(claimed))) [[unlikely]]
      return false;
    if (length != claimed) [[unlikely]]
      writer_.begin(record_kind::message, length);
    writer_.append(length);
    return true;
  }
  void publish() noexcept {
    if (through_stream_)
      return publish_frames();
    if (writer_.publish()) [[unlikely]]
      answer_alert();
  }

  // As in atbus::sender.
  virtual status flush(std::chrono::nanoseconds timeout) = 0;
  virtual status wait_writable(std::chrono::nanoseconds timeout, std::size_t length) = 0;
  [[nodiscard]] virtual int descriptor() = 0;
  virtual bool prepare_sleep() = 0;
  virtual void finish_sleep() = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds longest_sleep() const noexcept = 0;
  virtual bool poll_writable() = 0;
  virtual result<std::size_t> take_back(const std::function<void(bytes_view, errc)>& each) = 0;
  [[nodiscard]] virtual bool receiver_alive() noexcept = 0;
  // Lanes override these.
  [[nodiscard]] virtual std::uint64_t receiver_generation() const noexcept { return 0; }
  [[nodiscard]] virtual status look_at_alert() noexcept { return {}; }
  [[nodiscard]] virtual bool settled() const noexcept { return false; }
  // A quarter of the lane, in bytes, while half of it is free; else 0.
  [[nodiscard]] virtual std::uint64_t share() const noexcept { return 0; }
  // Bytes that were committed and are not handled, with their headers. Of a lane.
  [[nodiscard]] virtual std::uint64_t unhandled_bytes() const noexcept { return 0; }
  virtual std::size_t unhandled(const std::function<void(bytes_view)>&) const { return 0; }
  [[nodiscard]] virtual channel_stats stats() const = 0;
  [[nodiscard]] virtual std::uint32_t lane() const noexcept = 0;
  [[nodiscard]] std::uint64_t message_limit() const noexcept { return message_limit_; }
  void on_writable(std::function<void()> handler) {
    on_writable_ =
        handler ? std::make_shared<const std::function<void()>>(std::move(handler)) : nullptr;
  }

  // Writes accepted messages for at most `linger`, and passes those not written to `unsent`. Nothing is
  // sent afterwards. Lanes have nothing to write.
  virtual std::size_t finish(std::chrono::nanoseconds /*linger*/,
                             const std::function<void(bytes_view)>& /*unsent*/) {
    return 0;
  }

  // Called when a loop flushes this sender at the end of each turn: single messages need not leave at once.
  virtual void ride_on_loop() noexcept {}

  // Called when the public object closes. Ends the backend at once, or when the running handler returns.
  void release() noexcept;

 protected:
  sender_backend() = default;
  virtual ~sender_backend();

  // Cold paths of lanes.
  [[nodiscard]] virtual status make_room(std::uint64_t size) noexcept = 0;
  virtual void answer_alert() noexcept = 0;
  // Streams: makes a chunk with room for a message of this length, or moves on to a lane (then
  // through_stream_ is false), or returns why not. Discards an open frame.
  [[nodiscard]] virtual status new_chunk(std::size_t length) noexcept = 0;
  virtual void publish_frames() noexcept = 0;

  // Called after the public object has closed.
  virtual void stop() noexcept = 0;
  // Deletes this, within a fork_pause.
  virtual void destroy() noexcept = 0;

  // The rare ends of claim(), out of line so that it is inlined. Each discards the open slot.
  [[nodiscard]] status refuse(std::size_t length) noexcept;
  [[nodiscard]] status next_chunk(std::size_t length) noexcept;
  [[nodiscard]] status find_room(std::uint64_t size) noexcept;
  // Calls the handler, which may destroy this object and may throw.
  void call_on_writable();

  // From now on no slot is open. Called before positions of the lane come again.
  void discard_slot() noexcept { ++slots_; }

  // What each message needs comes first.
  std::uint64_t message_limit_ = 0;
  bool through_stream_ = false;
  lane_writer writer_;
  frame_chunk chunk_;        // of a stream
  std::uint64_t slots_ = 0;  // the number of the newest slot; discarding one increases it too

 private:
  void end() noexcept;

  bool in_callback_ = false;
  bool owned_ = true;
  // Shared, because it may replace itself while it runs, and a copy of the function may need memory.
  std::shared_ptr<const std::function<void()>> on_writable_;
};

}  // namespace atbus::detail
