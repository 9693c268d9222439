// A sender of a Unix socket that goes over to a lane of shared memory, and back when the receiver
// has gone.
#include <algorithm>
#include <utility>

#include "atbus/detail/copy_payload.hpp"
#include "atbus/detail/test_hook.hpp"
#include "channel/common/frame.h"
#include "channel/handover/handed_lanes.h"
#include "channel/socket_channel/stream_sender.h"
#include "channel/stream/frame_queue.h"

namespace atbus::detail {
namespace {

// A lane's room is given in steps of so many bytes; a record always fits. A step costs a look at the
// receiver's `head`, which may be in another core's cache.
constexpr std::uint64_t smallest_step = 64;
constexpr std::uint64_t largest_step = 32 * 1024;
constexpr std::chrono::nanoseconds look_at_socket = std::chrono::milliseconds{1};

}  // namespace

void stream_sender::take_offer() noexcept {
  const fork_pause no_fork;
  file segment = link_->take_segment();
  file bell = link_->take_bell();
  if (*link_->offered_lane() == no_lane || !segment || !bell || lane_ != nullptr)
    return;
  // Whatever is wrong with it: then the socket it is.
  auto taken = make_handed_sender(std::move(segment), std::move(bell), text_,
                                  *link_->offered_lane(), options_, &writer_);
  if (!taken)
    return;
  sender_state* const made = *taken;
  epoll_event interest{.events = EPOLLIN, .data = {.fd = -1}};
  if (made->message_limit() < message_limit_ || !made->start() ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made->descriptor(), &interest) != 0) {
    made->release();
    return;
  }
  made->on_writable([this] { call_on_writable(); });
  lane_ = made;
}

bool stream_sender::move_on_to_lane() noexcept {
  if (!std::exchange(switch_said_, true))
    link_->say_switch();
  test_hook(step::switch_said);
  write_now();
  if (phase_ != phase::linked || link_->has_unwritten())
    return false;
  test_hook(step::switch_written);
  through_stream_ = false;
  writer_.close_window();  // make_room gives it in steps
  return true;
}

void stream_sender::leave_lane() noexcept {
  if (lane_ == nullptr)
    return;
  if (std::exchange(through_stream_, true))
    return std::exchange(lane_, nullptr)->release();  // nothing was sent through it yet
  if (lane_->wants_room())
    refused_length_ = 0;  // there will be some, but not there
  lane_left_at_ = now();
  if (dialler_.dials_again())
    (void)empty_lane();
}

// What the receiver has not come to goes to its successor, ahead of what is sent from now on.
bool stream_sender::empty_lane() noexcept {
  if (lane_ == nullptr)
    return true;
  const fork_pause no_fork;
  // A lane that was used may hold more than our queue, which was empty then. Its records are as long
  // as frames.
  const std::uint64_t most =
      lane_->capacity() + 2 * frame_size(static_cast<std::size_t>(message_limit_));
  if (queue_->byte_limit() < most && queue_->size() == 0) {
    link_.reset();  // it has ended, and knows the old one
    queue_ = make_frame_queue(
        {.buffer = send_buffer_kind::growing, .bytes = most, .message_limit = message_limit_});
  }
  const auto taken = lane_->take_back([this](bytes_view message, errc outcome) {
    // The one that the receiver was handling when it died may have been handled: not again.
    mutable_bytes frame;
    if (outcome != errc::not_delivered || !queue_->claim(frame_size(message.size()), frame))
      return;
    copy_payload(begin_frame(frame.data(), frame_kind::data, message.size()), message.data(),
                 message.size());
    queue_->commit(frame_size(message.size()));
  });
  // A receiver's connections may end a moment before its locks do. One that is still alive after that
  // has only closed the connection, and hands out what is in the lane itself.
  if (!taken && taken.error() == errc::receiver_alive && now() - lane_left_at_ < dying_time)
    return false;
  // An open slot lies in it. Its lane may soon be another sender's.
  left_memory_ = lane_->memory();
  left_memory_->detach();
  std::exchange(lane_, nullptr)->release();
  return true;
}

// Is anybody there? What is sent goes into the queue, if not.
bool stream_sender::has_left_lane() noexcept {
  look(0);
  return through_stream_;
}

// The same, after the receiver has ended the lane. Its socket may not say so yet.
bool stream_sender::leave_ended_lane() noexcept {
  if (!has_left_lane() && phase_ == phase::linked)
    lost({errc::peer_closed, text_ + ": its receiver has ended the lane"});
  return through_stream_;
}

// Nothing in the lane tells of its receiver's death. So room is given in steps, and the publish that
// follows each of them looks at the socket: the messages are where they should be, and nobody waits for
// them while we look.
status stream_sender::make_room(std::uint64_t size) noexcept {
  const status made = lane_->make_room(size);
  if (made) {
    writer_.narrow_window(std::max(size, step_));
    writer_.alert_seen(no_alert);
    return made;
  }
  const bool left = made == errc::would_block ? has_left_lane() : leave_ended_lane();
  if (auto s = usable(); !s)
    return s;
  if (left) {
    // It will dial again; until then there is room, but not here.
    refused_length_ = 0;
    ++full_;
    return errc::would_block;
  }
  return made;
}

// Who is slow looks with each message. The steps of a fast one double, so that it looks once a
// millisecond, or as often as the coarse clock ticks.
void stream_sender::answer_alert() noexcept {
  lane_->answer_alert();
  if (!is_look_due()) {
    step_ = std::min(2 * step_ + smallest_step, largest_step);
    return;
  }
  step_ = 0;
  look(0);
}

bool stream_sender::is_look_due() noexcept {
  const auto time = coarse_now();
  if (time - looked_at_ < look_at_socket)
    return false;
  looked_at_ = time;
  return true;
}

}  // namespace atbus::detail
