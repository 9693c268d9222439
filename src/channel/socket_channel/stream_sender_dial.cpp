// Dialling and losing a sender's connection.
#include <algorithm>
#include <new>
#include <utility>

#include "atbus/detail/test_hook.hpp"
#include "channel/socket_channel/stream_sender.h"
#include "core/error_text.h"
#include "system/wait_deadline.h"

namespace atbus::detail {

error stream_sender::no_answer() const noexcept {
  return error_at(errc::timed_out, text_, "no answer within the connect timeout");
}

void stream_sender::begin() noexcept {
  const fork_pause no_fork;
  if (!std::exchange(asks_again_, false))
    attempt_ends_at_ = moment_after(now(), attempt_time_);
  if (auto e = dialler_.begin(); !e)
    return lost(std::move(e));
  if (!dialler_.asking())
    return dial_next();
  phase_ = phase::resolving;
  epoll_event interest{.events = EPOLLIN, .data = {.fd = dialler_.descriptor()}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, dialler_.descriptor(), &interest) != 0)
    return lost(error_at(errc::system_error, text_, "can't wait for its name", errno));
  take_answer();  // an answer that is already there causes no event
}

void stream_sender::take_answer() noexcept {
  const fork_pause no_fork;
  error why;
  if (!dialler_.answered(why))
    return;
  if (!why)
    return lost(std::move(why));
  dial_next();
}

std::chrono::nanoseconds stream_sender::share_of(std::chrono::nanoseconds time) const noexcept {
  return std::max(time, std::chrono::nanoseconds{0}) /
         static_cast<std::int64_t>(1 + dialler_.left());
}

void stream_sender::dial_next() noexcept {
  const fork_pause no_fork;
  auto dialled = dialler_.next();
  if (!dialled)
    return lost(std::move(dialled).error());
  commit_chunk();  // frames in the chunk may have no checksums
  hello own = own_;
  // The first half tells a receiver with several threads which of them knows this sender, the second one counts.
  own.session = ++own_.session;
  const int fd = dialled->fd.get();
  auto tls = tls_.begin(tls_buffers_);
  if (!tls)
    return lost(error_at(text_, tls.error()));
  try {
    link_ = std::make_unique<stream_link>(std::move(dialled->fd), dialled->connected, own,
                                          queue_.get(), space_, std::move(*tls));
  } catch (const std::bad_alloc&) {
    return lost(error_at(errc::out_of_memory, text_, explain(errc::out_of_memory)));
  }
  if (own.offers_lanes)
    link_->take_descriptors(true);
  switch_said_ = offer_awaited_ = false;
  chunk_.checked = link_->checks();
  watched_ = EPOLLIN | EPOLLOUT;
  epoll_event interest{.events = watched_, .data = {.fd = fd}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0)
    return lost(error_at(errc::system_error, text_, "can't watch its socket", errno));
  phase_ = phase::connecting;
  // The kernel would wait for minutes. All addresses of a name share the time that the lookup has left, so
  // that each is tried.
  const auto time = now();
  due_ = moment_after(time, share_of(attempt_ends_at_ - time));
  if (dialled->connected)
    connected();
}

void stream_sender::attempt_ended(error how) noexcept {
  if (how)
    return connected();
  if (phase_ == phase::linked)
    ++tls_failed_;  // its handshake was not answered in time
  {
    const fork_pause no_fork;
    link_->close(how);
  }
  dialler_.has_next() ? dial_next() : lost(std::move(how));
}

void stream_sender::connected() noexcept {
  phase_ = phase::linked;
  ++connections_;
  // The program looks late. The answer counts, so the handshake needs time of its own: it only begins now.
  if (const auto time = now(); time >= due_)
    due_ = moment_after(time, share_of(attempt_time_));
  if (link_->now() == stream_link::state::connecting)
    link_->connected();
  write_now();
  test_hook(step::hello_written);
}

void stream_sender::flush_link() noexcept {
  (void)link_->flush();
  if (link_->now() == stream_link::state::closed)
    link_ended();
  else if (limits_handshake() && now() >= due_)
    attempt_ended(no_answer());
}

void stream_sender::link_ended() noexcept {
  tls_failed_ += link_->secured() ? 0 : 1;
  lost(error_at(text_, link_->why()));
}

void stream_sender::lost(error why) noexcept {
  const fork_pause no_fork;
  if (link_ != nullptr)
    link_->close(why);
  dialler_.stop(epoll_);
  leave_lane();
  // The kernel does not report when a Unix listener's backlog has room again.
  const bool is_full = why.code() == errc::would_block;
  const auto time = now();
  asks_again_ = is_full && time < attempt_ends_at_;
  if (is_full && !asks_again_)
    why = no_answer();
  if (!dialler_.dials_again() && !asks_again_)
    return end(std::move(why));
  why_ = std::move(why);
  phase_ = phase::waiting;
  due_ = asks_again_ ? std::min(moment_after(time, full_backlog_pause), attempt_ends_at_)
                     : dialler_.next_round();
}

void stream_sender::end(error why) noexcept {
  commit_chunk();
  // An open slot sends nothing any more, but its user may still write to it: its memory stays until the next
  // claim, for which there is no room.
  discard_slot();
  chunk_.end = chunk_.at;
  phase_ = phase::ended;
  why_ = std::move(why);
  if (why_.code() == errc::ok)
    why_ = error{errc::closed};
}

status stream_sender::wait_connected(std::chrono::nanoseconds timeout) noexcept {
  const wait_deadline deadline{now(), timeout};
  while (phase_ != phase::ended && !(phase_ == phase::linked && link_->secured())) {
    if (deadline.over()) {
      lost(no_answer());
      return errc::timed_out;
    }
    look(deadline.left_ns(longest_sleep()));
  }
  return usable();
}

}  // namespace atbus::detail
