// The part of a connection_set that listens and dials, and how its connections come and go.
#include <algorithm>
#include <cerrno>
#include <new>

#include "atbus/clock.hpp"
#include "channel/common/socket_buffers.h"
#include "channel/connection/connection_set.h"
#include "channel/shm/segment.h"
#include "core/address_kinds.h"
#include "core/error_text.h"
#include "system/random.h"

namespace atbus::detail {
namespace {

constexpr std::size_t slots_max = std::size_t{1} << 20;

result<address> parse_stream(std::string_view text, const connection_options& options) {
  auto where = address::parse(text);
  if (!where)
    return where;
  if (!is_stream(where->kind())) {
    return error{errc::not_supported, std::string{text} +
                                          ": connections go through sockets; use unix://, ipv4://, "
                                          "ipv6:// or dns://, or a receiver and a sender"};
  }
  if (auto e = check_carrier(*where, options.socket.carrier.get()); !e)
    return e;
  if (auto e = check_frame_queue(queue_options(options), std::string{text}); !e)
    return e;
  return where;
}

result<listening_socket> open_listener(const address& where, const listen_options& options) {
  const socket_options& wanted = options.connection.socket;
  if (where.kind() != address_kind::nats) {
    return listening_socket::open(where, options.backlog,
                                  {.send_buffer = send_buffer_for(where, wanted),
                                   .receive_buffer = wanted.receive_buffer,
                                   .keepalive = wanted.keepalive});
  }
  auto handed = wanted.carrier->listen(where);
  if (!handed)
    return error_at(where.to_string(), handed.error());
  return listening_socket::carried(file{*handed}, where.to_string());
}

}  // namespace

// --- opening

result<std::string> connection_core::listen(std::string_view text, const listen_options& options) {
  if (auto s = usable(); !s)
    return error{s};
  auto where = parse_stream(text, options.connection);
  if (!where)
    return where.error();
  if (where->kind() == address_kind::dns) {
    return error{errc::invalid_argument,
                 std::string{text} + ": can't listen on a DNS name; use an address of this host"};
  }
  auto tls = tls_sessions::make(*where, options.connection.socket.tls, tls_role::server);
  if (!tls)
    return tls.error();
  const fork_pause no_fork;
  auto socket = open_listener(*where, options);
  if (!socket)
    return socket.error();
  auto made = std::make_unique<listener_entry>(std::move(*socket), epoll_.get(), options);
  made->options.connections = std::max(options.connections, 1U);
  made->options.unconfirmed = std::max(options.unconfirmed, 1U);
  made->local = where->kind() == address_kind::unix_socket;
  made->carried = where->kind() == address_kind::nats;
  made->offers_lanes = offers_lanes(*where);
  made->tls = std::move(*tls);
  if (!made->door.watch())
    return error{errc::system_error, std::string{text} + ": can't watch its socket", errno};
  listeners_.push_back(std::move(made));
  return listeners_.back()->door.address();
}

error connection_core::close_listener(std::string_view address) {
  if (auto s = usable(); !s)
    return error{s};
  const auto at = std::find_if(listeners_.begin(), listeners_.end(),
                               [&](const auto& l) { return l->door.address() == address; });
  if (at == listeners_.end())
    return {errc::not_found, std::string{address} + ": this set does not listen there"};
  for (const auto& c : slots_) {
    if (c == nullptr || c->listener != at->get())
      continue;
    const bool waits = newcomers::waits(*c);
    leave_unconfirmed(*c);
    c->listener = nullptr;
    if (waits && watch(*c))
      busy_.join(*c);
  }
  const fork_pause no_fork;
  listeners_.erase(at);
  return {};
}

void connection_core::accept_some(listener_entry& from) noexcept {
  const fork_pause no_fork;
  for (int i = 0; i < accepts_per_look; ++i) {
    connection_entry* goes = nullptr;
    if (!has_room(from, goes))
      return;
    error refused;
    file socket = from.door.next(refused);
    if (!socket) {
      if (!refused)
        report(std::move(refused));
      return;
    }
    if (goes != nullptr)
      turn_away(*goes, stranger_end::crowded);
    if (!add_accepted(from, std::move(socket)))
      return;
  }
}

bool connection_core::may_accept(const listener_entry& at) const noexcept {
  return at.connections < at.options.connections && size() < slots_max;
}

// Several unconfirmed connections of one address never keep others out: one of them is closed.
bool connection_core::has_room(listener_entry& at, connection_entry*& goes) noexcept {
  const bool is_full = at.connections >= at.options.connections;
  if (size() >= slots_max || (is_full && at.unconfirmed.most_of_one() < 2)) {
    at.door.rest(never);
    return false;
  }
  if (!is_full && at.unconfirmed.size() < at.options.unconfirmed)
    return true;
  goes = static_cast<connection_entry*>(at.unconfirmed.next_to_go());
  return goes != nullptr;
}

void connection_core::turn_away(connection_entry& stranger, stranger_end why) noexcept {
  ++dropped_;
  count(why, strangers_);
  error reason = error_at(stranger.peer, explain(why));
  report(error_at(stranger.listener_address, reason));
  end(stranger, std::move(reason));
}

bool connection_core::may_read(connection_entry& c) noexcept {
  newcomers& all = c.listener->unconfirmed;
  const std::uint32_t longest = c.unconfirmed_limit != 0 ? c.unconfirmed_limit : c.own.payload_max;
  if (all.says_too_much(c, longest)) {
    turn_away(c, stranger_end::talkative);
    return false;
  }
  if (all.may_read(c, now(), strangers_))
    return true;
  busy_.leave(c);
  report(error_at(errc::would_block, c.listener_address, handshake_waits));
  (void)watch(c);
  return false;
}

bool connection_core::add_accepted(listener_entry& from, file socket) noexcept {
  const connection_options& options = from.options.connection;
  set_stream_options(
      socket.get(), {.send_buffer = 0, .receive_buffer = 0, .keepalive = options.socket.keepalive});
  connection_entry* added = nullptr;
  try {
    auto made = std::make_unique<connection_entry>(timers_);
    made->listener_address = from.door.address();
    made->carried = from.carried;
    made->peer = from.carried ? from.door.address() : describe_peer(socket.get());
    made->tls = from.tls;
    configure(*made, options, from.local);
    made->own.offers_lane_pair = from.offers_lanes;
    added = &add(std::move(made));
    added->listener = &from;
    ++from.connections;
    if (!add_link(*added, std::move(socket), true))
      return true;
    from.unconfirmed.join(*added, *added->link, now());
  } catch (const std::bad_alloc&) {
    if (added != nullptr)
      end(*added, {errc::out_of_memory});
    report(from.door.refused(ENOMEM));
    return false;
  }
  linked(*added);
  if (added->now == phase::linked)
    busy_.join(*added);  // a dialling peer has usually sent its hello already
  if (newcomer* const one_of_many = from.unconfirmed.next_of_too_many(*added))
    turn_away(static_cast<connection_entry&>(*one_of_many), stranger_end::crowded);
  return true;
}

void connection_core::configure(connection_entry& c, const connection_options& options,
                                bool local) {
  const frame_queue_options of_queue = queue_options(options);
  c.queue = make_frame_queue(of_queue, &chunks_);
  c.marks = frame_marks{c.queue->byte_limit()};
  c.own.wants_checksums = !c.tls && options.socket.checksums.value_or(!local);
  c.own.payload_max = static_cast<std::uint32_t>(of_queue.message_limit);
  c.limit = c.own.payload_max;
  c.release = options.release;
  c.user_confirms = options.user_confirms;
  if (options.user_confirms)
    c.unconfirmed_limit = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(options.unconfirmed_message_limit, c.own.payload_max));
  c.confirm_timeout = options.confirm_timeout;
  c.linger = options.linger;
  c.write_at = write_size;
}

result<connection> connection_core::connect(std::string_view text, const connect_options& options) {
  if (auto s = usable(); !s)
    return error{s};
  auto where = parse_stream(text, options.connection);
  if (!where)
    return where.error();
  if (auto e = check_dialled(*where); !e)
    return e;
  auto tls = tls_sessions::make(*where, options.connection.socket.tls, tls_role::client);
  if (!tls)
    return tls.error();
  const fork_pause no_fork;
  if (size() >= slots_max)
    return error{errc::invalid_argument, "a set holds at most 1048576 connections"};
  auto made = std::make_unique<connection_entry>(timers_);
  made->dial = std::make_unique<dialler>(
      *where,
      stream_options{.send_buffer = send_buffer_for(*where, options.connection.socket),
                     .receive_buffer = options.connection.socket.receive_buffer,
                     .keepalive = options.connection.socket.keepalive},
      options.reconnect_min, options.reconnect_max,
      where->kind() == address_kind::nats ? options.connection.socket.carrier : nullptr);
  made->carried = where->kind() == address_kind::nats;
  made->peer = made->dial->text();
  made->connect_timeout = options.connect_timeout;
  made->tls = std::move(*tls);
  configure(*made, options.connection, where->kind() == address_kind::unix_socket);
  made->own.offers_lane_pair = offers_lanes(*where);
  connection_entry& c = add(std::move(made));
  begin(c);
  return handle(c);
}

void connection_core::begin(connection_entry& c) noexcept {
  const fork_pause no_fork;
  c.now = phase::resolving;
  if (!std::exchange(c.retrying, false))
    c.connect_ends_at = c.connect_timeout == never ? never : moment_after(now(), c.connect_timeout);
  c.phase_ends_at = c.connect_ends_at;
  set_timer(c);
  if (auto e = c.dial->begin(); !e)
    return lost(c, std::move(e));
  if (!c.dial->asking())
    return dial_next(c);
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = epoll_tag(c.id)}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.dial->descriptor(), &interest) != 0)
    return lost(c, error_at(errc::system_error, c.peer, "can't wait for its name", errno));
  asked_.join(c);
}

void connection_core::dial_next(connection_entry& c) noexcept {
  const fork_pause no_fork;
  auto dialled = c.dial->next();
  if (!dialled) {
    const auto again = now() + full_backlog_pause;
    if (dialled.error() == errc::would_block &&
        (c.connect_ends_at == never || again < c.connect_ends_at)) {
      c.retrying = true;
      c.now = phase::waiting;
      c.phase_ends_at = again;
      return set_timer(c);
    }
    return lost(c, std::move(dialled).error());
  }
  c.now = phase::connecting;
  if (c.connect_ends_at != never) {
    // All addresses of a name share the time that is left, so that each is tried.
    const auto time = now();
    const auto left = std::max(c.connect_ends_at - time, std::chrono::nanoseconds{0});
    c.phase_ends_at = moment_after(time, left / static_cast<std::int64_t>(1 + c.dial->left()));
    set_timer(c);
  }
  const bool connected = dialled->connected;
  if (add_link(c, std::move(dialled->fd), connected) && connected)
    linked(c);
}

void connection_core::no_answer(connection_entry& c, error why) noexcept {
  if (!c.dial->has_next())
    return lost(c, std::move(why));
  unlink(c, why);
  dial_next(c);
}

bool connection_core::add_link(connection_entry& c, file socket, bool connected) noexcept {
  hello own = c.own;
  own.session = random_word();
  c.limit = own.payload_max;
  settle(c);  // the link fills in the checksums of these frames
  auto tls = c.tls.begin(tls_buffers_);
  if (!tls) {
    lost(c, error_at(c.peer, tls.error()));
    return false;
  }
  try {
    c.link = std::make_unique<stream_link>(std::move(socket), connected, own, c.queue.get(), space_,
                                           std::move(*tls));
  } catch (const std::bad_alloc&) {
    lost(c, error_at(errc::out_of_memory, c.peer, explain(errc::out_of_memory)));
    return false;
  }
  c.look_after_phase = {};
  c.chunk.checked = c.link->checks();
  c.link->stop_when_opened();
  c.link->read_on();
  if (c.unconfirmed_limit != 0)
    c.link->limit_reading(c.unconfirmed_limit);
  begin_pairing(c);
  if (c.release == release_policy::by_user)
    c.link->keep_written();
  c.watched_for = 0;
  if (connected)
    c.now = phase::linked;
  return watch(c);
}

void connection_core::linked(connection_entry& c) noexcept {
  c.now = phase::linked;
  if (++c.links > 1)
    ++reconnects_;
  if (c.link->now() == stream_link::state::connecting)
    c.link->connected();
  c.confirmed = c.confirm_said = false;
  c.phase_ends_at = c.confirm_timeout == never ? never : moment_after(now(), c.confirm_timeout);
  set_timer(c);
  if (c.closing)
    return say_goodbye(c);
  if (c.dial != nullptr)
    write(c);  // an accepting end says hello after the dialling one
  watch(c);
}

// --- ending

void connection_core::leave_unconfirmed(connection_entry& c) noexcept {
  if (c.listener != nullptr)
    c.listener->unconfirmed.leave(c);
}

void connection_core::settle_confirmed(connection_entry& c) noexcept {
  if (c.confirmed || !c.opened || (c.user_confirms && !c.confirm_said))
    return;
  busy_.move(c, [&] { c.confirmed = true; });
  c.link->lift_limit();
  leave_unconfirmed(c);
  c.phase_ends_at = never;
  set_timer(c);
}

void connection_core::unlink(connection_entry& c, const error& why) noexcept {
  const fork_pause no_fork;
  lent_.end();
  c.pairing.end();
  if (c.link != nullptr)
    c.link->close(why);
  if (c.dial != nullptr)
    c.dial->stop(epoll_);
  busy_.leave(c);
  leave_unconfirmed(c);
  c.opened = c.peer_done = c.goodbye = c.shut = c.more = c.blocked = false;
  c.watched_for = 0;
  c.starved_until = never;
  if (!c.closing)
    c.linger_ends_at = never;
  c.resend_due = false;  // the next link writes all of it
  pay_release_debt(c);
}

// True if everything accepted was written, this half is closed, and the peer has just closed its half.
bool connection_core::succeeded(const connection_entry& c, const error& why) const noexcept {
  return c.closing && c.goodbye && !c.link->has_unwritten() && !c.link->writes_no_more() &&
         why == errc::peer_closed && why.system_code() == 0;
}

void connection_core::link_ended(connection_entry& c) noexcept {
  if (!c.link->secured() && (c.dial != nullptr || c.link->bytes_read() != 0)) {
    ++tls_failed_;
    if (c.dial == nullptr)
      report_end(c);
  }
  error why = c.link->why();
  if (c.dial != nullptr) {
    if (const error told = c.dial->carrier_says(); !told) {
      try {
        why = why.with_text(told.text());
      } catch (const std::bad_alloc&) {
        // the cause without the carrier's words
      }
    }
  }
  lost(c, error_at(c.peer, why));
}

void connection_core::lost(connection_entry& c, error why) noexcept {
  if (c.now == phase::linked && succeeded(c, why))
    return end(c, {});
  if (c.closing || c.dial == nullptr || !c.dial->dials_again())
    return end(c, std::move(why));
  unlink(c, why);
  c.why = std::move(why);
  c.now = phase::waiting;
  c.phase_ends_at = c.dial->next_round();
  set_timer(c);
}

void connection_core::end(connection_entry& c, error why) noexcept {
  if (c.now == phase::closed)
    return;
  unlink(c, why);
  c.now = phase::closed;
  set_timer(c);
  give_up_claim(c);
  if (c.listener != nullptr) {
    if (c.listener->connections-- == c.listener->options.connections)
      c.listener->door.go_on(now());
    c.listener = nullptr;
  }
  std::size_t unsent = 0;
  if (!c.queue->empty())
    for_each_frame(*c.queue, [&](bytes_view, bool written) { unsent += written ? 0 : 1; });
  if (unsent != 0) {
    try {
      const std::string count = std::to_string(unsent) + " messages were not written";
      why = why ? error{errc::closed, c.peer + ": " + count}
                : why.with_text(why.text() + "; " + count);
    } catch (const std::bad_alloc&) {
      why = why ? error{errc::closed} : why;
    }
  }
  c.why = std::move(why);
  due_.join(c);
}

// The claimed slot then returns `closed`.
void connection_core::give_up_claim(connection_entry& c) noexcept {
  c.chunk.frame = nullptr;
  settle(c);
}

void connection_core::say_goodbye(connection_entry& c) noexcept {
  if (std::exchange(c.goodbye, true))
    return wrote(c);
  give_up_claim(c);
  c.link->say_goodbye(errc::ok);
  write(c);
}

void connection_core::close(connection_entry& c, std::chrono::nanoseconds linger) noexcept {
  const auto until = linger < never ? never : moment_after(now(), linger);
  if (c.now == phase::closed)
    return;
  if (std::exchange(c.closing, true)) {
    if (until != never && (c.linger_ends_at == never || until < c.linger_ends_at))
      c.linger_ends_at = until;
    return set_timer(c);
  }
  c.linger_ends_at = until;
  set_timer(c);
  give_up_claim(c);
  if (c.now == phase::linked) {
    if (c.paused)
      resume(c);
    return say_goodbye(c);
  }
  if (c.queue->empty())
    end(c, {});
}

void connection_core::abort(connection_entry& c) noexcept {
  end(c, error_at(errc::closed, c.peer, "closed by this end without linger"));
}

// --- the rest

void connection_core::pause(connection_entry& c) noexcept {
  if (c.closing || c.now == phase::closed || std::exchange(c.paused, true))
    return;
  lent_.end();
  if (c.opened)
    busy_.leave(c);
  watch(c);
}

void connection_core::resume(connection_entry& c) noexcept {
  if (!std::exchange(c.paused, false) || c.now != phase::linked)
    return;
  if (watch(c) && !c.peer_done)
    busy_.join(c);
}

void connection_core::confirm(connection_entry& c) noexcept {
  c.confirm_said = true;
  settle_confirmed(c);
}

connection_state connection_core::state(const connection_entry& c) noexcept {
  if (c.now == phase::closed)
    return connection_state::closed;
  if (c.ending())
    return connection_state::closing;
  switch (c.now) {
    case phase::resolving:
      return connection_state::resolving;
    case phase::connecting:
      return connection_state::connecting;
    case phase::waiting:
      return c.retrying ? connection_state::connecting : connection_state::waiting;
    default:
      return c.opened ? connection_state::open : connection_state::opening;
  }
}

}  // namespace atbus::detail
