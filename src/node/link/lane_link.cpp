#include "node/link/lane_link.h"

#include "atbus/clock.hpp"
#include "atbus/detail/direct_path.hpp"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

// How soon it is seen that all was handled.
constexpr std::chrono::nanoseconds look_for_settling = std::chrono::milliseconds{1};
// Appended bytes that wait at most: what is written should be read before it has left the caches.
constexpr std::size_t unpublished_max = std::size_t{256} * 1024;

}  // namespace

std::byte* lane_link::claim(std::size_t length, message_purpose, status& why) noexcept {
  claimed_.reset();
  if (!out_ || now_ == phase::closing || now_ == phase::closed) [[unlikely]] {
    why = errc::closed;
    return nullptr;
  }
  // Without a slot, which would be a copy more for each message.
  std::byte* const at = out_->backend_->claim(length, why);
  if (at == nullptr) [[unlikely]] {
    flush();  // room comes when it is read
    if (why == errc::would_block)
      owner_.wait_for_room(*this);
    else if (why != errc::message_too_large && why != errc::used_after_fork)
      why = errc::closed;  // the end of its lane is about to be seen
    return nullptr;
  }
  prefetch_lines(at);
  claimed_ = length;
  return at;
}

std::size_t lane_link::queued() const noexcept {
  return out_ ? static_cast<std::size_t>(out_->backend_->unhandled_bytes()) : 0;
}

std::size_t lane_link::share() const noexcept {
  return out_ ? static_cast<std::size_t>(out_->backend_->share()) : 0;
}

bool lane_link::commit(std::size_t length) noexcept {
  if (!claimed_)
    return false;
  const bool is_there = out_->backend_->append(*claimed_, length);
  claimed_.reset();
  out_->backend_->publish();
  return is_there;
}

void lane_link::append(std::size_t length) noexcept {
  if (!claimed_)
    return;
  out_->backend_->append(*claimed_, length);
  claimed_.reset();
  if (unpublished_ == 0)
    owner_.unpublished_.push_back(this);
  unpublished_ += length + record_header_size;
  if (unpublished_ >= unpublished_max)
    flush();
}

void lane_link::flush() noexcept {
  if (unpublished_ == 0)
    return;
  unpublished_ = 0;
  std::erase(owner_.unpublished_, this);
  // In a forked child the lane is the parent's.
  if (out_->look())
    out_->backend_->publish();
}

void lane_link::take_unreleased(const std::function<void(bytes_view, errc)>& each) {
  const auto tell = [&](bytes_view message, errc outcome) {
    if (!is_transports_own(message))
      each(message, outcome);
  };
  // A living receiver that has not dropped the lane may be at it.
  if (out_ && !out_->take_back(tell) && now_ == phase::closed) {
    may_be_inherited_ = peer_durable_;
    out_->unhandled([&](bytes_view message) { tell(message, errc::outcome_unknown); });
  }
}

void lane_link::visit_unhandled(const std::function<void(bytes_view)>& each) const {
  if (!out_)
    return;
  out_->unhandled([&](bytes_view message) {
    if (!is_transports_own(message))
      each(message);
  });
}

void lane_link::pause() noexcept {
  paused_ = true;
  if (has_lane())
    own_.in.pause(lane_);
}

void lane_link::resume() noexcept {
  paused_ = false;
  if (has_lane())
    own_.in.resume(lane_);
}

void lane_link::close(std::chrono::nanoseconds linger) noexcept {
  if (now_ == phase::closed)
    return;
  claimed_.reset();
  flush();
  if (paused_)
    resume();
  const auto ends_at = moment_after(now(), linger);
  if (now_ != phase::closing || ends_at < phase_ends_at_)
    phase_ends_at_ = ends_at;
  now_ = phase::closing;
  owner_.wait_no_more(*this);
  owner_.watch(*this, look_for_settling);
}

void lane_link::abort() noexcept {
  if (now_ != phase::closed)
    owner_.end(*this, error_at(errc::closed, peer_, "it was closed here at once"));
}

void lane_link::confirm(const node_instance& peer) noexcept {
  if (has_lane())
    own_.in.set_note(lane_, to_note(peer, owner_.self_.id));
}

bool lane_link::has_successor() const noexcept {
  // Also while it is called: it may have ended before it answers.
  return (now_ == phase::recalling || now_ == phase::left) && out_->receiver_generation() != 0;
}

}  // namespace atbus::detail
