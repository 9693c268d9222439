// How connections of a receiver come, wait until they may begin, and go.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "channel/socket_channel/stream_receiver.h"
#include "core/error_text.h"
#include "system/random.h"

namespace atbus::detail {

void stream_receiver::accept_some() noexcept {
  const fork_pause no_fork;
  const auto asked_at = now();
  for (int i = 0; i < accepts_per_look; ++i) {
    connection* goes = nullptr;
    if (!has_room(goes))
      return;
    error refused;
    file socket = door_.next(refused);
    if (!socket) {
      if (!refused)
        report(std::move(refused));
      return;
    }
    if (goes != nullptr)
      turn_away(*goes, stranger_end::crowded);
    if (!add(std::move(socket), asked_at)) {
      report(door_.refused(errno));
      return;
    }
    if (newcomer* const one_of_many = newcomers_.next_of_too_many(*open_.back()))
      turn_away(static_cast<connection&>(*one_of_many), stranger_end::crowded);
  }
}

// Several unconfirmed connections of one address never keep others out: one of them is closed.
bool stream_receiver::has_room(connection*& goes) noexcept {
  const bool is_full = open_.size() >= most_connections_;
  if (is_full && newcomers_.most_of_one() < 2) {
    door_.rest({});  // until one ends
    return false;
  }
  if (!is_full && newcomers_.size() < most_unconfirmed_)
    return true;
  goes = static_cast<connection*>(newcomers_.next_to_go());
  return goes != nullptr;
}

// A lane keeps its number while messages of its last sender wait in it.
std::uint32_t stream_receiver::take_number() {
  const std::size_t fresh = slots_.size();
  auto taken = free_.empty() ? free_.end() : free_.end() - 1;
  if (lanes_ != nullptr && !free_.empty()) {
    own_lanes().free_ended_lanes();
    const auto with_lane =
        std::ranges::find_if(free_, [this](auto number) { return own_lanes().is_free(number); });
    if (with_lane != free_.end())
      taken = with_lane;
    else if (fresh < std::min(most_connections_, own_lanes().lane_count()))
      taken = free_.end();
  }
  if (taken != free_.end()) {
    const std::uint32_t number = *taken;
    free_.erase(taken);
    return number;
  }
  if (slots_.size() == slots_.capacity())
    slots_.reserve(std::max<std::size_t>(16, 2 * slots_.size()));
  // Reserve here, so that the lists never grow in functions that must not fail.
  free_.reserve(slots_.capacity());
  open_.reserve(slots_.capacity());
  slots_.emplace_back();
  return static_cast<std::uint32_t>(fresh);
}

bool stream_receiver::add(file socket, std::chrono::nanoseconds asked_at) noexcept {
  hello own = own_;
  own.session = random_word();
  std::unique_ptr<connection> made;
  connection* settled = nullptr;
  try {
    auto tls = tls_.begin(tls_buffers_);
    if (!tls) {
      errno = ENOMEM;
      return false;
    }
    made = std::make_unique<connection>(std::move(socket), own, space_, std::move(*tls));
    newcomers_.join(*made, made->link, now());
    settled = &settle(made);
  } catch (const std::bad_alloc&) {
    if (made != nullptr)
      newcomers_.leave(*made);
    errno = ENOMEM;
    return false;
  }
  connection& c = *settled;
  if (shards_ != nullptr)
    c.link.stop_when_opened();
  c.asked_at = asked_at;
  c.close_at = moment_after(now(), confirm_timeout_);
  unconfirmed_.join(c);
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = c.tag}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.link.descriptor(), &interest) != 0) {
    const int code = errno;
    drop(c);
    errno = code;
    return false;
  }
  busy_.join(c);  // a dialling peer has usually sent its hello already
  return true;
}

stream_receiver::connection& stream_receiver::settle(std::unique_ptr<connection>& one) {
  if (ended_.size() + open_.size() >= ended_.capacity())
    ended_.reserve(std::max<std::size_t>(16, 2 * ended_.capacity()));
  const std::uint32_t number = take_number();
  slots_[number] = std::move(one);
  connection& c = *slots_[number];
  c.number = number;
  c.tag = ++accepted_ << 33U | std::uint64_t{number} << 1U | 1U;
  c.open_at = open_.size();
  open_.push_back(&c);
  return c;
}

bool stream_receiver::may_read(connection& stranger) noexcept {
  constexpr std::size_t longest_hello = frame_size(control_payload_max);
  if (newcomers_.says_too_much(stranger, longest_hello)) {
    turn_away(stranger, stranger_end::talkative);
    return false;
  }
  if (newcomers_.may_read(stranger, now(), strangers_))
    return true;
  busy_.leave(stranger);
  current_ = nullptr;
  watch(stranger);
  report(error_at(errc::would_block, address_, handshake_waits));
  return false;
}

void stream_receiver::look_at_strangers(std::chrono::nanoseconds time) noexcept {
  for (auto* const some : {&late_, &unconfirmed_}) {
    while (!some->empty() && some->first()->close_at <= time) {
      connection& one = *some->first();
      if (newcomers::waits(one) || !one.look.is_due(one.link, false)) {
        turn_away(one, stranger_end::late);
        continue;
      }
      leave_probation(one);
      one.is_late = true;
      one.close_at = time + last_look::more_time;
      late_.join(one);
      busy_.join(one);
    }
  }
  while (newcomer* const silent = newcomers_.next_too_silent(time))
    turn_away(static_cast<connection&>(*silent), stranger_end::silent);
  while (newcomer* const next = newcomers_.next_to_begin(time)) {
    auto& begins = static_cast<connection&>(*next);
    watch(begins);
    busy_.join(begins);
  }
}

void stream_receiver::turn_away(connection& stranger, stranger_end why) noexcept {
  ++dropped_;
  count(why, strangers_);
  report(error_of(explain(why).code(), [&]() -> error {
    return {explain(why).code(), address_ + ": connection " + std::to_string(stranger.number) +
                                     " is closed, " + explain(why).text()};
  }));
  drop(stranger);
}

void stream_receiver::drop(connection& ended) noexcept {
  // The sender may be gone, but messages in its lane are still delivered.
  if (ended.has_lane) {
    own_lanes().open_gate(ended.number);
    moved_on_ = true;
  }
  unlist(ended);
  if (shards_ != nullptr && ended.confirmed)
    shards_->gone(sender_identity(ended.link.peer_session()), shard_);
  ended.link.close({errc::closed});
  ended_.push_back(std::move(slots_[ended.number]));
}

void stream_receiver::unlist(connection& one) noexcept {
  busy_.leave(one);
  leave_probation(one);
  newcomers_.leave(one);
  if (current_ == &one)
    current_ = nullptr;
  open_[one.open_at] = open_.back();
  open_[one.open_at]->open_at = one.open_at;
  open_.pop_back();
  free_.push_back(one.number);
}

}  // namespace atbus::detail
