// A sender of a Unix socket moves on to a lane of shared memory, and back when the receiver is gone.
#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "atbus/detail/copy_payload.hpp"
#include "atbus/detail/test_hook.hpp"
#include "channel/common/frame.h"
#include "channel/handover/handed_lanes.h"
#include "channel/socket_channel/stream_sender.h"
#include "channel/stream/frame_queue.h"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

// The writer gets the lane's room in steps of this many bytes; a record always fits. Each step costs a load
// of the receiver's `head`, which may be in another core's cache.
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
  // On any error the socket stays in use.
  (void)error_of(errc::out_of_memory, [&]() -> error {
    auto taken = make_handed_sender(std::move(segment), std::move(bell), text_,
                                    *link_->offered_lane(), options_, &writer_);
    if (!taken)
      return taken.error();
    std::unique_ptr<sender_state, release_end> made{*taken};
    made->on_writable([this] { call_on_writable(); });
    if (made->message_limit() < message_limit_)
      return errc::message_too_large;
    if (const status started = made->start(); !started)
      return started;
    epoll_event interest{.events = EPOLLIN, .data = {.fd = -1}};
    if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made->descriptor(), &interest) != 0)
      return errc::system_error;
    lane_ = made.release();
    return {};
  });
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
  discard_slot();          // an earlier lane may have had the same positions
  writer_.close_window();  // make_room opens it in steps
  return true;
}

void stream_sender::leave_lane() noexcept {
  if (lane_ == nullptr)
    return;
  if (std::exchange(through_stream_, true))
    return std::exchange(lane_, nullptr)->release();  // nothing was sent through it yet
  // What a batch has appended: the receiver may live, and then it reads on in the lane. Relaxed: only this
  // sender stores `tail`.
  if (writer_.slot()->tail.load(std::memory_order_relaxed) != writer_.position() &&
      writer_.publish())
    lane_->answer_alert();
  discard_slot();
  if (lane_->wants_room())
    refused_length_ = 0;  // there will be room, but in the queue
  lane_left_at_ = now();
  if (dialler_.dials_again())
    (void)empty_lane();
}

// Claims room for all that the lane holds. The queue is empty: before the lane was used, all of it was written.
bool stream_sender::claim_for_lane(mutable_bytes& place) noexcept {
  const auto held =
      static_cast<std::size_t>(lane_->held_bytes());  // a record is as long as a frame
  if (held == 0 || queue_->claim(held, place))
    return true;
  try {
    auto larger = make_frame_queue(
        {.buffer = send_buffer_kind::growing,
         .bytes = lane_->capacity() + 2 * frame_size(static_cast<std::size_t>(message_limit_)),
         .message_limit = message_limit_});
    if (!larger->claim(held, place))
      return false;
    link_.reset();  // the link has ended, and refers to the old queue
    queue_ = std::move(larger);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Messages that the receiver has not handled go to the next receiver, ahead of all later messages.
bool stream_sender::empty_lane() noexcept {
  if (lane_ == nullptr)
    return true;
  const fork_pause no_fork;
  // What the lane gives back it does not hold any more: the memory has to be there before. Without it this
  // is tried again, and nothing is sent meanwhile.
  mutable_bytes place;
  if (!claim_for_lane(place))
    return false;
  std::size_t used = 0;
  const auto keep = [&](bytes_view message, errc outcome) {
    // Do not send again the message that the receiver was handling when it died: it may have been handled.
    if (outcome != errc::not_delivered || frame_size(message.size()) > place.size() - used)
      return;  // too long: another process has changed the lane's control words meanwhile
    copy_payload(begin_frame(place.data() + used, frame_kind::data, message.size()), message.data(),
                 message.size());
    used += frame_size(message.size());
  };
  const auto taken = lane_->take_back(std::ref(keep));  // as a function of its own it takes memory
  queue_->commit(used);
  // The connections of a dying receiver may end shortly before its locks. A receiver that is still alive
  // after `dying_time` has only closed the connection, and delivers the lane's messages itself.
  if (!taken && taken.error() == errc::receiver_alive && now() - lane_left_at_ < dying_time)
    return false;
  // An open slot may lie in this lane, so no other sender may get it before the next claim. The slot of the
  // latest claim lies in the first lane that was left since, because the later ones have had no claim.
  // (Memory of the slot's own in that place is no way: if mmap with MAP_FIXED fails, the place may be unmapped.)
  if (!left_lane_)
    lane_->leave_lane_in(left_lane_.emplace());
  std::exchange(lane_, nullptr)->release();
  return true;
}

void stream_sender::forget_left_lane() noexcept {
  const fork_pause no_fork;
  left_lane_.reset();
}

// Checks whether the receiver is gone. If so, later messages go into the queue.
bool stream_sender::has_left_lane() noexcept {
  look(0);
  return through_stream_;
}

// As above, after the receiver has ended the lane. The socket may not report it yet.
bool stream_sender::leave_ended_lane() noexcept {
  if (!has_left_lane() && phase_ == phase::linked)
    lost(error_at(errc::peer_closed, text_, "its receiver has ended the lane"));
  return through_stream_;
}

// A wait may have seen the end of the lane before that of the socket, and left it at that. A dying receiver's
// lock is waited for only behind that.
void stream_sender::leave_lane_that_ended() noexcept {
  if (!through_stream_ && !lane_->usable())
    (void)leave_ended_lane();
}

// The lane does not show its receiver's death. So room is given in steps, and the publish after each step
// looks at the socket. By then the messages are visible, so the look does not delay them.
status stream_sender::make_room(std::uint64_t size) noexcept {
  // The first claim in a lane comes here: its window is closed.
  if (left_lane_) [[unlikely]]
    forget_left_lane();
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
    // The sender dials again. Until then there is room in the queue, not in the lane.
    refused_length_ = 0;
    ++full_;
    return errc::would_block;
  }
  return made;
}

// A slow sender looks at the socket with each message. The steps of a fast sender double until it looks
// once per millisecond, or per tick of the coarse clock.
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
