#include "channel/socket_channel/stream_receiver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "atbus/detail/test_hook.hpp"
#include "channel/stream/dialler.h"
#include "core/error_text.h"
#include "system/wait_deadline.h"

namespace atbus::detail {
namespace {

constexpr std::size_t read_space_size = 512 * 1024;
// Most reads of one fill that find no message: a peer that sends only control frames, or its message byte by
// byte, can't keep poll from returning.
constexpr int most_reads = 16;

}  // namespace

result<stream_receiver::opening_door> stream_receiver::listen(const atbus::address& where,
                                                              const receiver_options& options) {
  if (where.kind() == address_kind::dns) {
    return error{errc::invalid_argument,
                 where.to_string() +
                     ": can't listen on a DNS name; use an address of this host, "
                     "such as ipv6://[::]:" +
                     std::to_string(where.port())};
  }
  if (auto e = check_carrier(where, nullptr); !e)
    return e;
  const std::uint64_t limit = options.message_limit == 0
                                  ? static_cast<std::uint64_t>(build_settings::message_limit)
                                  : options.message_limit;
  if (limit > frame_payload_max) {
    return error{errc::invalid_argument, where.to_string() + ": a message limit of " +
                                             std::to_string(limit) + " is above 64 MiB"};
  }
  const stream_options sockets{.send_buffer = 0,
                               .receive_buffer = options.socket.receive_buffer,
                               .keepalive = options.socket.keepalive};
  auto tls = tls_sessions::make(where, options.socket.tls, tls_role::server);
  if (!tls)
    return tls.error();
  auto listener = listening_socket::open(where, options.backlog, sockets);
  if (!listener)
    return listener.error();
  return opening_door{std::move(*listener), std::move(*tls)};
}

result<receiver_backend*> stream_receiver::open(const atbus::address& where,
                                                const receiver_options& options) {
  const fork_pause no_fork;
  auto door = listen(where, options);
  if (!door)
    return door.error();
  auto made = make(where, options, std::move(*door), nullptr, 0);
  if (!made)
    return made.error();
  return static_cast<receiver_backend*>(*made);
}

result<stream_receiver*> stream_receiver::make(const atbus::address& where,
                                               const receiver_options& options, opening_door door,
                                               std::shared_ptr<stream_shards> shards,
                                               std::uint32_t shard) {
  file epoll{kernel().epoll_create(EPOLL_CLOEXEC)};
  if (!epoll)
    return error{errc::system_error, where.to_string() + ": can't make an epoll instance", errno};
  const bool local = where.kind() == address_kind::unix_socket;
  auto* const made =
      new stream_receiver(std::move(door.listener), std::move(epoll), options, std::move(door.tls),
                          local, local && where.flag(address_option::shm).value_or(true));
  if (shards != nullptr && !made->join(std::move(shards), shard)) {
    error failed{errc::system_error, where.to_string() + ": can't watch its shard", errno};
    made->release();
    return failed;
  }
  if (!made->door_.watch()) {
    error failed{errc::system_error, where.to_string() + ": can't watch its socket", errno};
    made->release();
    return failed;
  }
  return made;
}

stream_receiver::stream_receiver(listening_socket listener, file epoll,
                                 const receiver_options& options, tls_sessions tls, bool local,
                                 bool offers_lanes)
    : local_(local),
      epoll_(std::move(epoll)),
      door_(std::move(listener), epoll_.get(), nullptr),
      address_(door_.address()),
      message_limit_(options.message_limit == 0
                         ? static_cast<std::uint64_t>(build_settings::message_limit)
                         : options.message_limit),
      most_connections_(std::max(options.connections, 1U)),
      most_unconfirmed_(std::max(options.unconfirmed, 1U)),
      confirm_timeout_(options.confirm_timeout),
      space_(read_space_size),
      tls_(std::move(tls)),
      spin_(options.spin),
      lane_options_(options),
      newcomers_(options.strangers) {
  own_.wants_checksums = !tls_ && options.socket.checksums.value_or(!local);
  own_.offers_lanes = offers_lanes;
  own_.payload_max = static_cast<std::uint32_t>(message_limit_);
}

stream_receiver::~stream_receiver() = default;

// --- reading

bool stream_receiver::fill(bool quick) noexcept {
  if (interrupted_ != interruption::none)
    return false;
  if (run_.at != nullptr)
    current_->link.give_back(std::exchange(run_, {}));
  bool looked = quick;
  for (int reads = 0;;) {
    if (current_ == nullptr) {
      if (look_due_ || (cut_short_ && rhythm_.is_late(now())) ||
          (busy_.empty() && !std::exchange(looked, true)))
        find_busy();
      if (busy_.empty())
        return false;
      current_ = &busy_.next();
      current_->has_read = false;
    }
    connection& c = *current_;
    if (c.more) {
      collect(c);
      if (run_.at != nullptr)
        return true;
      if (c.more)
        continue;
    }
    if (c.link.now() == stream_link::state::closed) {
      if (!c.link.secured() && c.link.bytes_read() != 0) {
        ++tls_failed_;
        report_end(c);
      }
      drop(c);
      continue;
    }
    if (c.has_read) {
      // Its turn is over; it gets another one if there is more.
      busy_.leave(c);
      if (!c.link.drained()) {
        busy_.join(c);
        // This connection may stay busy for ever, so let others that have become ready join the line.
        look_due_ = true;
      }
      current_ = nullptr;
      continue;
    }
    if (!c.confirmed && !may_read(c))
      continue;
    if (!c.confirmed && shards_ != nullptr) {
      if (reads++ == most_reads) {
        cut_short_ = true;
        return false;
      }
      greet(c);
      continue;
    }
    if (reads++ == most_reads) {
      cut_short_ = true;
      return false;
    }
    c.has_read = true;
    c.more = c.link.receive(std::exchange(c.on_chance, false) && c.brings_one && !local_);
    watch(c);
  }
}

void stream_receiver::collect(connection& from) noexcept {
  if (from.link.switched())
    move_on_to_lane(from);
  connection_ = from.number;
  const walk_end ended = from.link.lend(run_);
  from.more = ended == walk_end::stopped;
  if (std::uint64_t length = 0; run_.at != nullptr && run_.has_next(length)) {
    const std::size_t size = frame_size(length);
    from.brings_one = size <= stream_link::most_peeked && run_.at + size == run_.end;
  }
  if (run_.at == nullptr && from.link.switched())
    move_on_to_lane(from);
  if (ended == walk_end::failed)
    found_faulty(from);
  if (!from.confirmed && from.link.opened())
    opening_moved(from);
  if (ended == walk_end::needs_more && from.link.ended_by_goodbye())
    from.link.close({errc::peer_closed});
}

void stream_receiver::reject(bytes_view message) noexcept {
  run_ = {};
  connection& from = *slots_[connection_];
  from.link.reject(message);
  from.more = false;
  found_faulty(from);
}

void stream_receiver::found_faulty(connection& which) noexcept {
  faulty_ += which.faulty ? 0 : 1;
  strangers_.faulty += which.faulty || which.confirmed ? 0 : 1;
  which.faulty = true;
  report_end(which);
}

void stream_receiver::report_end(const connection& which) noexcept {
  report(error_of(which.link.why().code(), [&]() -> error {
    return {which.link.why().code(), address_ + ": connection " + std::to_string(which.number) +
                                         " is closed, " + which.link.why().text()};
  }));
}

// The peer's hello has arrived: answers with this end's hello.
void stream_receiver::opening_moved(connection& of) noexcept {
  busy_.move(of, [&] { of.confirmed = true; });
  leave_probation(of);
  newcomers_.leave(of);
  if (of.link.agreed_lanes())
    offer_lane(of);
  test_hook(step::lane_offered);
  write_controls(of);
  test_hook(step::offer_written);
}

void stream_receiver::write_controls(connection& of) noexcept {
  if (of.confirmed)
    (void)of.link.flush();
  else
    of.link.secure();  // an unproven peer gets no other reply
  watch(of);
}

void stream_receiver::watch(connection& of) noexcept {
  if (of.link.now() == stream_link::state::closed)
    return;
  // Bytes of a connection that waits to begin would wake this process again and again.
  const std::uint32_t wanted =
      of.link.interest(of.confirmed) | (newcomers::waits(of) ? EPOLLET : 0U);
  if (of.link.starved() && starved_until_ == std::chrono::nanoseconds{0})
    starved_until_ = now() + stream_link::starved_pause;
  epoll_event interest{.events = wanted, .data = {.u64 = of.tag}};
  if (wanted != of.watched &&
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, of.link.descriptor(), &interest) == 0)
    of.watched = wanted;
}

void stream_receiver::look_at_starved() noexcept {
  starved_until_ = std::chrono::nanoseconds{0};
  for (connection* c : open_) {
    if (!c->link.starved())
      continue;
    write_controls(*c);
    busy_.join(*c);
  }
}

// --- waiting

void stream_receiver::find_busy() noexcept {
  if (!rhythm_.may_skip_look(now()) || look_due_ || cut_short_ ||
      open_.size() > poll_rhythm::few_connections)
    return look(0);
  for (connection* c : open_) {
    if (c->uses_lane || newcomers::waits(*c))
      continue;
    c->on_chance = true;
    busy_.join(*c);
  }
}

void stream_receiver::look(std::int64_t timeout_ns) noexcept {
  look_due_ = cut_short_ = false;
  look_at_clock();
  ended_.clear();
  // As many as there may be strangers by default: what is behind them would not be seen.
  std::array<epoll_event, 1024> events;
  const int n =
      kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ns);
  rhythm_.looked(now());
  bool knocked = false;
  bool passed = false;
  for (int i = 0; i < n; ++i) {
    void* const of = events[static_cast<std::size_t>(i)].data.ptr;
    if (of == nullptr)
      knocked = true;
    if (of == nullptr || of == lanes_)
      continue;  // the lanes read their own bells
    const std::uint32_t seen = events[static_cast<std::size_t>(i)].events;
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    const std::uint64_t number = tag >> 1U & 0xffffffffU;
    connection* const c = number < slots_.size() ? slots_[number].get() : nullptr;
    if (c == nullptr || c->tag != tag) {
      passed |= tag == box_tag;
      continue;
    }
    if ((seen & EPOLLOUT) != 0)
      write_controls(*c);
    if (!newcomers::waits(*c) || (seen & (EPOLLERR | EPOLLHUP)) != 0)
      busy_.join(*c);
  }
  if (passed)
    take_passed();
  // Last, because it may end connections that these events refer to.
  if (knocked)
    accept_some();
}

void stream_receiver::look_at_clock() noexcept {
  constexpr std::chrono::nanoseconds nobody{0};
  if (door_.watching() && unconfirmed_.empty() && late_.empty() && starved_until_ == nobody)
    return;
  const auto time = now();
  if (starved_until_ != nobody && starved_until_ <= time)
    look_at_starved();
  look_at_strangers(time);
  if (open_.size() < most_connections_)
    door_.go_on(time);
}

std::chrono::nanoseconds stream_receiver::longest_sleep() const noexcept {
  constexpr std::chrono::nanoseconds none{-1};
  if (interrupted_ != interruption::none)
    return none;
  std::chrono::nanoseconds next = none;
  const auto consider = [&](std::chrono::nanoseconds at) {
    const auto left = std::max(at - now(), std::chrono::nanoseconds{0});
    next = next < std::chrono::nanoseconds{0} ? left : std::min(next, left);
  };
  if (!late_.empty())
    consider(late_.first()->close_at);
  if (!unconfirmed_.empty())
    consider(unconfirmed_.first()->close_at);
  if (const auto at = newcomers_.due_at(); at != std::chrono::nanoseconds::max())
    consider(at);
  if (!door_.watching() && open_.size() < most_connections_)
    consider(door_.rests_until());
  if (starved_until_ != std::chrono::nanoseconds{0})
    consider(starved_until_);
  if (lanes_ != nullptr) {
    const auto of_lanes = static_cast<const receiver_state&>(*lanes_).longest_sleep();
    if (of_lanes >= std::chrono::nanoseconds{0})
      consider(moment_after(now(), of_lanes));
  }
  return next;
}

bool stream_receiver::prepare_sleep() {
  // New bytes make the descriptor readable; messages that were read already do not, so hand them out first.
  return interrupted_ == interruption::none && !dispatching_ && !anything(false) && busy_.empty() &&
         (lanes_ == nullptr || own_lanes().prepare_sleep());
}

void stream_receiver::finish_sleep() {
  if (lanes_ != nullptr)
    own_lanes().finish_sleep();
}

status stream_receiver::wait(std::chrono::nanoseconds timeout) {
  if (auto s = may_wait(); !s)
    return s;
  const auto start = now();
  const wait_deadline deadline{start, timeout};
  if (anything(true))
    return {};
  if (!spin_.spin(start, deadline.at(), [this] { return anything(false); })) {
    for (;;) {
      if (has_problems()) {
        if (auto s = report_problems(); !s)
          return s;
      }
      if (lanes_ != nullptr && !own_lanes().prepare_sleep())
        break;
      // What is left of a connection in line may wait in its TLS session, of which epoll knows nothing.
      look(busy_.empty() ? deadline.left_ns(longest_sleep()) : 0);
      finish_sleep();
      if (lanes_ != nullptr)
        own_lanes().read_bells();
      if (anything(true))
        break;
      if (deadline.over())
        return errc::timed_out;
    }
  }
  spin_.learn(now() - start);
  return {};
}

// --- lifetime

channel_stats stream_receiver::stats() const {
  channel_stats sum;
  if (interrupted_ == interruption::forked)
    return sum;
  if (lanes_ != nullptr)
    sum = static_cast<const receiver_state&>(*lanes_).stats();
  sum.messages += messages_;
  sum.bytes += bytes_;
  sum.quarantined += faulty_;
  sum.connections = open_.size();
  sum.unconfirmed_dropped = dropped_;
  sum.strangers = strangers_;
  sum.tls_failed = tls_failed_;
  sum.socket_buffer = granted_buffer(door_.descriptor(), SO_RCVBUF);
  return sum;
}

error stream_receiver::remove() {
  return usable();
}

void stream_receiver::stop() noexcept {
  const fork_pause no_fork;
  door_.close();
  if (shards_ != nullptr)
    shards_->leave(shard_);
  // End the lanes before the connections: a sender that reads the goodbye then finds the receiver's lock
  // free.
  if (lanes_ != nullptr) {
    (void)own_lanes().remove();
    std::exchange(lanes_, nullptr)->release();
  }
  for (connection* c : open_) {
    if (c->confirmed) {  // an unproven peer gets no reply
      c->link.say_goodbye(errc::closed);
      (void)c->link.flush();
    }
    c->link.close({errc::closed});
  }
  // Nothing is left in the epoll instance, so no duplicate of the descriptor becomes readable.
  epoll_.reset();
}

void stream_receiver::destroy() noexcept {
  if (lanes_ != nullptr)
    std::exchange(lanes_, nullptr)->release();
  const fork_pause no_fork;
  delete this;
}

void stream_receiver::abandon_in_child() noexcept {
  interrupted_ = interruption::forked;
  door_.abandon();
  for (const auto& c : slots_) {
    if (c != nullptr)
      c->link.abandon();
  }
  epoll_.reset();
}

}  // namespace atbus::detail
