// The part of a connection_set that waits: epoll and its events, timers and sleep.
#include <algorithm>
#include <array>
#include <cerrno>

#include "atbus/clock.hpp"
#include "channel/connection/connection_set.h"
#include "core/error_text.h"
#include "system/wait_deadline.h"

namespace atbus::detail {

void connection_core::find_busy() noexcept {
  if (!rhythm_.may_skip_look(now()) || slots_.size() > poll_rhythm::few_connections)
    return look();
  for (const auto& c : slots_) {
    if (c != nullptr && (c->now != phase::linked || c->blocked))
      return look();
  }
  for (const auto& c : slots_) {
    if (c != nullptr && reads(*c) && !newcomers::waits(*c))
      busy_.join(*c);
  }
}

void connection_core::look() noexcept {
  look_at_clock();
  look_at_questions();
  look_at_sockets(0);
}

void connection_core::look_at_sockets(std::int64_t timeout_ns) noexcept {
  // As many as there may be strangers by default: what is behind them would not be seen.
  std::array<epoll_event, 1024> events;
  const int n =
      kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ns);
  rhythm_.looked(now());
  std::array<listener_entry*, events.size()> doors;
  std::size_t knocked = 0;
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if ((event.data.u64 & 1U) == 0)
      doors[knocked++] = static_cast<listener_entry*>(event.data.ptr);
    else if (connection_entry* const c = find(event.data.u64 >> 1U))
      ready(*c, event.events);
  }
  for (std::size_t i = 0; i != knocked; ++i)
    accept_some(*doors[i]);
}

void connection_core::look_at_clock() noexcept {
  if (timers_.next() == timer_queue::never && listeners_.empty())
    return;
  const auto time = now();
  timers_.run(time);
  for (const auto& l : listeners_) {
    look_at_strangers(*l, time);
    if (may_accept(*l))
      l->door.go_on(time);
  }
}

void connection_core::look_at_strangers(listener_entry& of,
                                        std::chrono::nanoseconds time) noexcept {
  while (newcomer* const silent = of.unconfirmed.next_too_silent(time))
    turn_away(static_cast<connection_entry&>(*silent), stranger_end::silent);
  while (newcomer* const next = of.unconfirmed.next_to_begin(time)) {
    auto& begins = static_cast<connection_entry&>(*next);
    if (watch(begins))
      busy_.join(begins);
  }
}

void connection_core::look_at_questions() noexcept {
  while (connection_entry* const c = asked_.first()) {
    asked_.leave(*c);
    if (c->now == phase::resolving)
      ready(*c, 0);
  }
}

void connection_core::ready(connection_entry& c, std::uint32_t events) noexcept {
  switch (c.now) {
    case phase::resolving: {
      const fork_pause no_fork;
      error why;
      if (!c.dial->answered(why))
        return;
      if (!why)
        return lost(c, std::move(why));
      return dial_next(c);
    }
    case phase::connecting: {
      error failed = dial_result(c.link->descriptor(), c.peer);
      return failed ? linked(c) : no_answer(c, std::move(failed));
    }
    case phase::linked:
      if (c.blocked && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        write(c);
      if (c.now == phase::linked && reads(c) &&
          (events & (EPOLLERR | EPOLLHUP | (newcomers::waits(c) ? 0U : EPOLLIN))) != 0)
        busy_.join(c);
      return;
    case phase::waiting:
    case phase::closed:
      return;
  }
}

void connection_core::time_is_up(connection_entry& c) noexcept {
  c.timer_at = never;
  const auto time = now();
  if (c.starved_until != std::chrono::nanoseconds{0} && c.starved_until <= time) {
    c.starved_until = std::chrono::nanoseconds{0};
    set_timer(c);
    if (!watch(c))
      return;
    if (reads(c))
      busy_.join(c);
    return write(c);
  }
  const bool lingers_no_more =
      c.linger_ends_at != std::chrono::nanoseconds{0} && c.linger_ends_at <= time;
  auto& look = lingers_no_more ? c.look_after_linger : c.look_after_phase;
  if (c.now == phase::linked && reads(c) && !newcomers::waits(c) && look.is_due(*c.link, c.more)) {
    busy_.join(c);
    (lingers_no_more ? c.linger_ends_at : c.phase_ends_at) = time + last_look::more_time;
    return set_timer(c);
  }
  if (lingers_no_more) {
    if (c.closing)
      return end(c, error_at(errc::timed_out, c.peer, "the linger time has passed"));
    return lost(c, error_at(errc::peer_closed, c.peer, peer_has_closed));
  }
  switch (c.now) {
    case phase::waiting:
      return begin(c);
    case phase::resolving:
      c.connect_ends_at = moment_after(time, c.connect_timeout);
      ready(c, 0);
      if (c.now != phase::resolving)
        return;
      return lost(c, error_at(errc::timed_out, c.peer, "no answer within the connect timeout"));
    case phase::connecting:
      // An answer that came in time counts, however late the program looks for it.
      if (is_answered(c.link->descriptor()))
        return ready(c, EPOLLOUT);
      return no_answer(c,
                       error_at(errc::timed_out, c.peer, "no answer within the connect timeout"));
    case phase::linked:
      if (c.dial == nullptr)
        return turn_away(c, stranger_end::late);
      ++dropped_;
      tls_failed_ += c.link->secured() ? 0 : 1;
      return lost(
          c, error_at(errc::timed_out, c.peer,
                      c.opened ? "it was not confirmed in time" : "it has not said hello in time"));
    case phase::closed:
      return;
  }
}

void connection_core::set_timer(connection_entry& c) noexcept {
  auto at = c.now == phase::closed ? never : c.phase_ends_at;
  for (const auto other : {c.linger_ends_at, c.starved_until}) {
    if (c.now != phase::closed && other != never)
      at = at == never ? other : std::min(at, other);
  }
  if (at == c.timer_at)
    return;
  c.timer_at = at;
  if (at == never)
    c.clock.cancel();
  else
    c.clock.set(at);
}

// An established connection stays in epoll, because adding it again may fail. Epoll always reports the end of a
// connection: where there is nothing to watch for, edge-triggered, so that it wakes this process once.
bool connection_core::watch(connection_entry& c) noexcept {
  std::uint32_t wanted = 0;
  if (c.now == phase::connecting)
    wanted = EPOLLOUT;
  if (c.now == phase::linked) {
    wanted = (reads(c) ? static_cast<std::uint32_t>(EPOLLIN) : 0U) |
             (c.blocked ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    // Bytes of a connection that waits to begin would wake this process again and again.
    if (wanted == 0 || c.starved_until != std::chrono::nanoseconds{0} || newcomers::waits(c))
      wanted |= EPOLLET;
  }
  if (wanted == c.watched_for || c.link == nullptr || c.link->descriptor() < 0)
    return true;
  epoll_event interest{.events = wanted, .data = {.u64 = epoll_tag(c.id)}};
  const int add_or_change = c.watched_for == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (kernel().epoll_ctl(epoll_.get(), add_or_change, c.link->descriptor(), &interest) != 0) {
    lost(c, error_at(errc::system_error, c.peer, "can't watch its socket", errno));
    return false;
  }
  c.watched_for = wanted;
  return true;
}

bool connection_core::prepare_sleep() {
  if (interrupted_ != interruption::none || dispatching_)
    return false;
  look_at_questions();
  flush();
  return !anything();
}

void connection_core::finish_sleep() {
  if (interrupted_ == interruption::none && !dispatching_)
    look();
}

std::chrono::nanoseconds connection_core::longest_sleep() const noexcept {
  constexpr std::chrono::nanoseconds none{-1};
  if (interrupted_ != interruption::none)
    return none;
  auto at = timers_.next();
  for (const auto& l : listeners_) {
    if (!l->door.watching() && may_accept(*l))
      at = std::min(at, l->door.rests_until());
    at = std::min(at, l->unconfirmed.due_at());
  }
  if (at == timer_queue::never)
    return none;
  return std::max(at - now(), std::chrono::nanoseconds{0});
}

status connection_core::wait(std::chrono::nanoseconds timeout) {
  if (auto s = may_wait(); !s)
    return s;
  const auto start = now();
  const wait_deadline deadline{start, timeout};
  flush();
  const auto something = [this] {
    look();
    return anything();
  };
  if (!anything() && !spin_.spin(start, deadline.at(), something)) {
    while (!anything()) {
      // These may end a connection, or let one be dialled again soon: before it is known how long to sleep.
      look_at_clock();
      look_at_questions();
      if (anything())
        break;
      look_at_sockets(deadline.left_ns(longest_sleep()));
      if (!anything() && deadline.over())
        return errc::timed_out;
    }
  }
  spin_.learn(now() - start);
  return {};
}

}  // namespace atbus::detail
