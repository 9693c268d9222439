#include "channel/socket_channel/stream_shards.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <new>

#include "atbus/clock.hpp"

namespace atbus::detail {

stream_shards::stream_shards(listening_socket listener, std::uint32_t count,
                             std::uint32_t waiting_max)
    : listener_(std::move(listener)), boxes_(count), waiting_max_(waiting_max) {}

error stream_shards::open() {
  for (box& each : boxes_) {
    each.event = file{kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!each.event) {
      return {errc::system_error, listener_.bound_to() + ": can't make what wakes its shards",
              errno};
    }
  }
  return {};
}

std::uint32_t stream_shards::emptiest() const noexcept {
  std::uint32_t best = 0;
  for (std::uint32_t i = 1; i < boxes_.size(); ++i) {
    if (!boxes_[i].left && (boxes_[best].left || boxes_[i].senders < boxes_[best].senders))
      best = i;
  }
  return best;
}

std::optional<std::uint32_t> stream_shards::arrived(std::uint64_t session,
                                                    std::chrono::nanoseconds asked_at) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  try {
    const auto [at, is_new] = places_.try_emplace(sender_identity(session));
    place& its = at->second;
    if (is_new)
      its.shard = emptiest();
    if (const std::uint32_t number = connection_of_sender(session); number < its.begun) {
      // Two shards have accepted one each, and that of the older one was busy. What was accepted after all others had
      // ended is no older one: its number was claimed by somebody else.
      if (its.connections != 0 || asked_at <= its.ended_at)
        return std::nullopt;
      its.begun = number;
    }
    if (its.connections++ == 0)
      ++boxes_[its.shard].senders;
    return its.shard;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

bool stream_shards::begins(std::uint64_t session) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  const auto at = places_.find(sender_identity(session));
  if (at == places_.end() || connection_of_sender(session) < at->second.begun)
    return false;
  at->second.begun = connection_of_sender(session);
  return true;
}

void stream_shards::gone(std::uint32_t sender, std::uint32_t shard) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  const auto at = places_.find(sender);
  // Its shard may have left, and then it may have another one.
  if (at == places_.end() || at->second.shard != shard || --at->second.connections != 0)
    return;
  --boxes_[shard].senders;
  at->second.ended = ++ends_;
  at->second.ended_at = now();
  try {
    ended_.emplace_back(sender, ends_);
  } catch (const std::bad_alloc&) {
    places_.erase(at);
  }
  while (ended_.size() > remembered_max)
    forget_oldest();
}

void stream_shards::forget_oldest() noexcept {
  const auto [sender, end] = ended_.front();
  ended_.pop_front();
  const auto at = places_.find(sender);
  if (at != places_.end() && at->second.connections == 0 && at->second.ended == end)
    places_.erase(at);
}

bool stream_shards::pass(std::unique_ptr<stream_connection> one, std::uint32_t from,
                         std::uint32_t to) noexcept {
  const std::uint32_t sender = sender_identity(one->link.peer_session());
  {
    const fork_pause no_fork;
    const std::lock_guard lock{mutex_};
    box& of = boxes_[to];
    try {
      if (!of.left && (from == to || of.connections.size() < waiting_max_)) {
        of.connections.push_back(std::move(one));
        const std::uint64_t call = 1;
        (void)kernel().write(of.event.get(), &call, sizeof call);
        return true;
      }
    } catch (const std::bad_alloc&) {  // as if it had left
    }
    one.reset();
  }
  gone(sender, to);
  return false;
}

std::unique_ptr<stream_connection> stream_shards::take(std::uint32_t shard) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  box& own = boxes_[shard];
  if (own.connections.empty()) {
    std::uint64_t calls = 0;
    (void)kernel().read(own.event.get(), &calls, sizeof calls);
    return nullptr;
  }
  auto next = std::move(own.connections.front());
  own.connections.pop_front();
  return next;
}

void stream_shards::leave(std::uint32_t shard) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  boxes_[shard].left = true;
  boxes_[shard].connections.clear();
  std::erase_if(places_, [shard](const auto& of) { return of.second.shard == shard; });
}

void stream_shards::abandon_in_child() noexcept {
  listener_.abandon();
  for (box& each : boxes_) {
    each.event.reset();
    for (const auto& one : each.connections)
      one->link.abandon();
  }
}

}  // namespace atbus::detail
