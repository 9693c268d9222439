#include "channel/connection/connection_set.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "atbus/clock.hpp"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

// Most turns of a poll that find no message: peers that send only small parts of messages can't keep poll
// from returning.
constexpr int idle_turns_max = 64;
constexpr std::size_t messages_per_clock = 32;
constexpr std::uint64_t slot_bits = 20;
constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;

// Counts all connections of the process, so that no handle ever refers to another connection.
std::atomic<std::uint64_t> serials{1};

struct anchor_pool {
  std::mutex mutex;  // locked only inside a fork_pause: no child inherits it locked
  connection_anchor* unused = nullptr;
};
anchor_pool& anchors() {
  static auto* const kept = new anchor_pool;  // handles may outlive static objects
  return *kept;
}

connection_anchor* take_anchor() {
  anchor_pool& pool = anchors();
  const std::lock_guard lock{pool.mutex};
  if (pool.unused == nullptr)
    return new connection_anchor;
  return std::exchange(pool.unused, pool.unused->next_unused);
}

}  // namespace

struct connection_core::budget {
  std::size_t messages;
  std::chrono::nanoseconds deadline;  // 0: none
  std::size_t delivered = 0;

  [[nodiscard]] bool go_on() const noexcept {
    return delivered < messages && (deadline == std::chrono::nanoseconds{0} ||
                                    delivered % messages_per_clock != 0 || now() < deadline);
  }
  // How many messages may be handed out before the deadline is checked again.
  [[nodiscard]] std::size_t until_asked() const noexcept {
    const std::size_t all = messages - delivered;
    return deadline == std::chrono::nanoseconds{0}
               ? all
               : std::min(all, messages_per_clock - delivered % messages_per_clock);
  }
};

// --- lifetime

result<connection_core*> connection_core::open(connection_handlers handlers,
                                               const connection_set_options& options) {
  constexpr auto longest = connection_set_options::write_delay_max;
  if (options.write_delay < std::chrono::nanoseconds{0} || options.write_delay > longest) {
    return error{errc::invalid_argument,
                 "write_delay has to be 0 to " + std::to_string(longest.count()) + " ms"};
  }
  const fork_pause no_fork;
  auto* const made = new connection_core(std::move(handlers), options);
  if (!made->epoll_) {
    error failed{errc::system_error, "can't make an epoll instance", errno};
    made->release();
    return failed;
  }
  return made;
}

connection_core::connection_core(connection_handlers handlers,
                                 const connection_set_options& options)
    : anchor_(take_anchor()),
      epoll_(kernel().epoll_create(EPOLL_CLOEXEC)),
      lanes_(options.lanes),
      space_(options.read_size),
      spin_(options.spin),
      flush_in_poll_(options.flush_in_poll),
      write_delay_(options.write_delay) {
  set_handlers(std::move(handlers));
  // Release: pairs with the acquire loads in find. A thread that sees this set's address also sees the first
  // id that belongs to it.
  anchor_->first_id.store(serials.load(std::memory_order_relaxed) << slot_bits,
                          std::memory_order_relaxed);
  anchor_->core.store(this, std::memory_order_release);
}

connection_core::~connection_core() = default;

void connection_core::stop() noexcept {
  const fork_pause no_fork;
  lent_.end();
  for (const auto& l : listeners_)
    l->door.close();
  for (const auto& c : slots_) {
    if (c == nullptr)
      continue;
    c->now = phase::closed;
    if (c->link != nullptr)
      c->link->close({errc::closed});
    if (c->dial != nullptr)
      c->dial->stop(epoll_);
  }
  // Nothing is left in the epoll instance, so no duplicate of the descriptor becomes readable.
  epoll_.reset();
}

void connection_core::destroy() noexcept {
  // Pairs with the load in find.
  anchor_->core.store(nullptr, std::memory_order_release);
  {
    const fork_pause no_fork;
    anchor_pool& pool = anchors();
    const std::lock_guard lock{pool.mutex};
    anchor_->next_unused = std::exchange(pool.unused, anchor_);
  }
  // User code: destroyed outside of the fork_pause.
  const auto handlers = std::move(handlers_);
  const auto next_handlers = std::move(next_handlers_);
  const fork_pause no_fork;
  delete this;
}

void connection_core::abandon_in_child() noexcept {
  interrupted_ = interruption::forked;
  lent_.end();
  for (const auto& l : listeners_)
    l->door.abandon();
  for (const auto& c : slots_) {
    if (c == nullptr)
      continue;
    c->chunk.stop();
    if (c->link != nullptr)
      c->link->abandon();
    if (c->dial != nullptr)
      c->dial->abandon();
  }
  epoll_.reset();
}

void connection_core::set_handlers(connection_handlers handlers) {
  next_handlers_ = std::move(handlers);
  if (!dispatching_)
    take_next_handlers();
}

void connection_core::take_next_handlers() {
  if (!next_handlers_)
    return;
  set_on_problem(next_handlers_->on_problem);  // first, because it may throw
  handlers_ = std::move(*next_handlers_);
  next_handlers_.reset();
}

connection_entry* connection_core::find(connection_anchor* anchor, std::uint64_t id,
                                        connection_core*& core, status& why) noexcept {
  why = errc::closed;
  if (anchor == nullptr)
    return nullptr;
  core = anchor->core.load(std::memory_order_acquire);
  if (core == nullptr || id < anchor->first_id.load(std::memory_order_relaxed))
    return nullptr;
  if (auto s = core->usable(); !s) {
    why = s;
    return nullptr;
  }
  return core->find(id);
}

connection_entry* connection_core::find(std::uint64_t id) const noexcept {
  const std::uint64_t slot = id & slot_mask;
  if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->id != id)
    return nullptr;
  return slots_[slot].get();
}

connection_entry& connection_core::add(std::unique_ptr<connection_entry> made) {
  connection_entry& c = *made;
  auto slot = static_cast<std::uint32_t>(slots_.size());
  if (free_.empty()) {
    if (slots_.size() == slots_.capacity())
      slots_.reserve(std::max<std::size_t>(16, 2 * slots_.size()));
    free_.reserve(slots_.capacity());  // so that forget() can't fail
    slots_.push_back(std::move(made));
  } else {
    slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(made);
  }
  c.id = serials.fetch_add(1, std::memory_order_relaxed) << slot_bits | slot;
  c.clock.replace([this, &c] { time_is_up(c); });
  return c;
}

void connection_core::forget(connection_entry& c) noexcept {
  const fork_pause no_fork;
  dirty_.leave(c);
  due_.leave(c);
  asked_.leave(c);
  const auto slot = static_cast<std::uint32_t>(c.id & slot_mask);
  slots_[slot].reset();
  free_.push_back(slot);
}

void connection_core::report_fault(const connection_entry& c) noexcept {
  ++faulty_;
  strangers_.faulty += c.dial == nullptr && !c.confirmed ? 1 : 0;
  if (!c.told && c.dial == nullptr)
    report_end(c);
}

void connection_core::report_end(const connection_entry& c) noexcept {
  report(error_of(c.link->why().code(), [&]() -> error {
    return {c.link->why().code(),
            c.listener_address + ": " + c.peer + " is closed, " + c.link->why().text()};
  }));
}

channel_stats connection_core::stats() const {
  channel_stats sum;
  if (interrupted_ == interruption::forked)
    return sum;
  sum.messages = messages_;
  sum.bytes = bytes_;
  sum.full = full_;
  sum.quarantined = faulty_;
  sum.unconfirmed_dropped = dropped_;
  sum.strangers = strangers_;
  sum.tls_failed = tls_failed_;
  sum.reconnects = reconnects_;
  for (const auto& c : slots_) {
    if (c != nullptr && c->now == phase::linked)
      ++sum.connections;
  }
  return sum;
}

// --- dispatch

std::size_t connection_core::poll(const poll_limits& limits) {
  if (size() == 0 && listeners_.empty() && !has_problems() && !next_handlers_)
    return 0;  // a node that uses lanes alone polls this as well
  const dispatch_frame frame{*this};
  if (!frame.entered())
    return 0;
  take_next_handlers();
  constexpr std::chrono::nanoseconds none{0};
  const auto time = limits.time > none || write_delay_ != none ? now() : none;
  budget left{.messages = limits.messages,
              .deadline = limits.time > none ? moment_after(time, limits.time) : none};
  resting_ = wrote_at_ != none && time - wrote_at_ < write_delay_;
  if (!resting_)
    find_busy();
  if (!tell_problems() || !tell_due())
    return 0;
  // Without a message to hand out, what is no message is: an opening, and an end.
  const bool without_messages = limits.messages == 0;
  std::size_t with_messages = 0;  // turns in a row
  for (int idle_turns = 0; !busy_.empty() && idle_turns != idle_turns_max &&
                           (left.go_on() || without_messages) && !poll_ends_;) {
    const std::size_t before = left.delivered;
    connection_entry& c = busy_.next();
    if (!read_turn(c, left))
      return left.delivered;
    if (without_messages && c.more && busy_.holds(c)) {
      // What has a message waits with it, and behind those that may have none.
      busy_.leave(c);
      busy_.join(c);
      if (++with_messages >= busy_.size())
        break;
    } else {
      with_messages = 0;
    }
    idle_turns = left.delivered == before ? idle_turns + 1 : 0;
  }
  if (tell_problems() && tell_due() && flush_in_poll_)
    flush_due();
  return left.delivered;
}

bool connection_core::read_turn(connection_entry& c, budget& left) {
  if (!c.more) {
    if (c.listener != nullptr && !c.confirmed && !may_read(c))
      return true;
    const bool was_secured = c.link->secured();
    const bool received = c.link->receive();
    c.more = received;
    // The TLS session has brought its handshake on, or answers the other end.
    if (c.link->now() == stream_link::state::open &&
        (!was_secured || (c.link->tls() != nullptr && c.link->tls()->wants_write()))) [[unlikely]] {
      write(c);
      if (c.now != phase::linked)
        return true;
    }
    if (!received) {
      if (c.link->now() == stream_link::state::closed) {
        link_ended(c);
      } else {
        busy_.leave(c);
        note_starved(c);
      }
      return true;
    }
    if (c.paused && c.opened) {  // its handshake is done
      busy_.leave(c);
      return true;
    }
  }
  return walk(c, left);
}

// Hands out messages until they end or another kind of frame follows.
walk_end connection_core::tell_messages(connection_entry& c, budget& left) {
  stream_link& link = *c.link;
  for (;;) {
    const walk_end ended = link.lend(lent_.begin());
    if (lent_.rest().at == nullptr)
      return ended;
    if (c.pairing.undecided()) [[unlikely]] {
      c.pairing.break_off();
      return walk_end::stopped;
    }
    {
      // Also when a handler throws.
      struct keeper {
        connection_core& of;
        stream_link& link;
        ~keeper() { link.give_back(of.lent_.rest()); }
      } const at_end{*this, link};
      if (c.reader != nullptr) {
        left.delivered += c.reader(c.context, lent_, left.until_asked());
      } else {
        left.delivered += lent_.tell(left.until_asked(), [&](bytes_view message) {
          ++messages_;
          bytes_ += message.size();
          if (handlers_.on_message)
            handlers_.on_message(handle(c), message);
        });
      }
    }
    if (lent_.wrong().data() != nullptr) [[unlikely]] {
      link.reject(lent_.wrong());
      return walk_end::failed;
    }
    if (!goes_on() || c.now != phase::linked || c.paused || !left.go_on())
      return walk_end::stopped;
  }
}

bool connection_core::walk(connection_entry& c, budget& left) {
  stream_link& link = *c.link;
  for (;;) {
    const walk_end ended = tell_messages(c, left);
    if (interrupted_ != interruption::none)
      return false;
    if (c.now != phase::linked)
      return true;
    if (ended == walk_end::failed) {
      report_fault(c);
      link_ended(c);
      return true;
    }
    if (!c.opened && link.opened() && pair_lanes(c)) {
      if (c.now != phase::linked)
        return true;
      if (ended == walk_end::stopped)
        continue;
    } else if (!c.opened && link.opened()) {
      if (!tell_opened(c))
        return false;
      if (c.paused && c.now == phase::linked) {  // it was so before
        busy_.leave(c);
        watch(c);
      }
      if (c.now != phase::linked || c.paused || poll_ends_)
        return true;
      continue;
    }
    if (ended == walk_end::stopped)
      return true;  // the rest in another turn
    c.more = false;
    if (link.ended_by_goodbye()) {
      busy_.leave(c);
      c.peer_done = true;
      if (!c.closing) {
        c.linger_ends_at = moment_after(now(), c.linger);
        set_timer(c);
      }
      say_goodbye(c);
    } else if (link.now() == stream_link::state::closed) {
      link_ended(c);
    } else {
      busy_.leave(c);
      if (!link.drained())
        busy_.join(c);
    }
    return true;
  }
}

bool connection_core::tell_opened(connection_entry& c) {
  c.opened = true;
  c.look_after_phase = {};
  if (c.dial != nullptr)
    c.dial->connected();
  c.limit = std::min(c.limit, c.link->send_limit());
  c.chunk.checked = c.link->checks();
  if (c.limit < c.own.payload_max) {
    // Messages may have been queued before the peer announced its limit.
    settle(c);
    const error too_long = check_queued_lengths(*c.queue, c.limit);
    if (!too_long) {
      end(c, error_at(c.peer, too_long));
      return true;
    }
  }
  settle_confirmed(c);
  write(c);  // the answering hello
  if (c.now != phase::linked || c.closing)
    return true;
  c.told = true;
  if (handlers_.on_open)
    handlers_.on_open(handle(c));
  return interrupted_ == interruption::none;
}

bool connection_core::tell_all_due() {
  // Connections that handlers add meanwhile have to wait for the next poll.
  for (std::size_t left = due_.size(); left != 0; --left) {
    connection_entry* const c = due_.first();
    due_.leave(*c);
    if (c->now != phase::closed) {
      if (std::exchange(c->writable_due, false) && handlers_.on_writable)
        handlers_.on_writable(handle(*c));
      if (interrupted_ != interruption::none)
        return false;
      continue;
    }
    struct end_of_use {
      connection_core& core;
      connection_entry& of;
      ~end_of_use() {
        if (core.interrupted_ == interruption::none)
          core.forget(of);
      }
    } const last_word{*this, *c};
    if (handlers_.on_close && (c->told || c->dial != nullptr)) {
      const error why = c->why;
      handlers_.on_close(handle(*c), why);
    }
    if (interrupted_ != interruption::none)
      return false;
  }
  return true;
}

}  // namespace atbus::detail
