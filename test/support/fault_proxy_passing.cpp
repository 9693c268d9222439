// What becomes of the bytes of a fault_proxy's connections: read, held back, changed, passed on,
// dropped.
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "fault_proxy_engine.h"

namespace atbus::test {
namespace {

// Whether the other end's kernel has all that was sent.
bool all_arrived(int fd) {
  int family = 0;
  socklen_t size = sizeof family;
  int waiting = 0;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family == AF_UNIX)
    return true;
  return ioctl(fd, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

}  // namespace

void fault_proxy::engine::read_into(connection& c, std::size_t way) {
  lane& l = c.lanes[way];
  if (l.source != lane::ending::none || l.held >= held_max)
    return;
  const ssize_t n = recv(c.sockets[way].get(), scratch_.data(),
                         std::min(scratch_.size(), held_max - l.held), MSG_DONTWAIT);
  if (n < 0) {
    if (!try_later(errno))
      l.source = lane::ending::broken;
    return;
  }
  if (n == 0) {
    l.source = lane::ending::end_of_file;
    return;
  }
  const auto size = static_cast<std::size_t>(n);
  total(way).arrived += size;
  if (plans_[way].discard || l.target_lost) {
    total(way).dropped += size;
    return;
  }
  l.held += size;
  l.chunks.push_back({.bytes = {scratch_.begin(), scratch_.begin() + n}, .arrived = clock::now()});
}

std::uint64_t fault_proxy::engine::sendable(const fault_plan& plan, const lane& l) {
  std::uint64_t most = plan.piece == 0 ? chunk_max : plan.piece;
  for (const auto& position : {plan.stall_at, plan.cut_at, plan.reset_at}) {
    if (position)
      most = std::min(most, *position > l.passed ? *position - l.passed : 0);
  }
  return most;
}

// True when the plan has ended the connection, or is about to.
bool fault_proxy::engine::act_at_position(connection& c, std::size_t way, wake_up& next) {
  const fault_plan& plan = plans_[way];
  const lane& l = c.lanes[way];
  if (plan.cut_at && l.passed >= *plan.cut_at) {
    end(c, false);
    return true;
  }
  if (!plan.reset_at || l.passed < *plan.reset_at)
    return false;
  // A reset overtakes what is still under way; what lies before it is to arrive.
  if (all_arrived(c.sockets[1 - way].get())) {
    end(c, true);
  } else {
    next.no_later_than(clock::now() + look_again);
  }
  return true;
}

void fault_proxy::engine::pass_on(connection& c, std::size_t way, wake_up& next) {
  const fault_plan& plan = plans_[way];
  lane& l = c.lanes[way];
  const int target = c.sockets[1 - way].get();
  std::array<std::byte, chunk_max> copy;
  for (int sends = 0;; ++sends) {
    if (act_at_position(c, way, next))
      return;
    if (l.wants_write || l.chunks.empty() || l.target_lost)
      break;
    const auto now = clock::now();
    const auto due = std::max(l.chunks.front().arrived + plan.delay, l.last_send + plan.pause);
    if (due > now || sends == sends_per_turn) {
      next.no_later_than(due);
      break;
    }
    chunk& first = l.chunks.front();
    const std::size_t size = std::min({static_cast<std::size_t>(sendable(plan, l)),
                                       first.bytes.size() - first.begin, copy.size()});
    if (size == 0)
      break;
    std::copy_n(first.bytes.begin() + static_cast<std::ptrdiff_t>(first.begin), size, copy.begin());
    if (plan.corrupt_at && *plan.corrupt_at >= l.passed && *plan.corrupt_at < l.passed + size)
      copy[*plan.corrupt_at - l.passed] ^= std::byte{1} << (plan.corrupt_bit % 8);
    const ssize_t n = send(target, copy.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (try_later(errno)) {
        l.wants_write = true;
      } else {
        total(way).dropped += l.held;
        l.target_lost = true;
        l.chunks.clear();
        l.held = 0;
      }
      break;
    }
    const auto sent = static_cast<std::size_t>(n);
    l.last_send = now;
    l.passed += sent;
    total(way).passed += sent;
    ++total(way).sends;
    l.held -= sent;
    first.begin += sent;
    if (first.begin == first.bytes.size())
      l.chunks.pop_front();
  }
  finish_lane(c, way);
}

// Passes on how the source ended, once nothing before it is left.
void fault_proxy::engine::finish_lane(connection& c, std::size_t way) {
  lane& l = c.lanes[way];
  if (l.source == lane::ending::none || !l.chunks.empty() || plans_[way].discard)
    return;
  if (l.source == lane::ending::broken) {
    end(c, true);
    return;
  }
  if (!l.shut) {
    (void)shutdown(c.sockets[1 - way].get(), SHUT_WR);
    l.shut = true;
  }
  if (c.lanes[0].finished() && c.lanes[1].finished())
    end(c, false);
}

// Behind a cut: closing a socket with unread bytes would be a reset, so read them, until the ends
// have closed.
void fault_proxy::engine::drain(connection& c) {
  bool ended = true;
  for (std::size_t way = 0; way < 2; ++way) {
    lane& l = c.lanes[way];
    for (int reads = 0; reads < sends_per_turn && l.source == lane::ending::none; ++reads) {
      const ssize_t n = recv(c.sockets[way].get(), scratch_.data(), scratch_.size(), MSG_DONTWAIT);
      if (n > 0) {
        total(way).arrived += static_cast<std::size_t>(n);
        total(way).dropped += static_cast<std::size_t>(n);
      } else if (n == 0) {
        l.source = lane::ending::end_of_file;
      } else if (!try_later(errno)) {
        l.source = lane::ending::broken;
      } else {
        break;
      }
    }
    ended = ended && l.source != lane::ending::none;
  }
  if (ended)
    c.now = connection::phase::closed;
}

void fault_proxy::engine::end(connection& c, bool with_reset) {
  if (c.now == connection::phase::closed)
    return;
  drop_held(c);
  if (with_reset) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (descriptor& socket : c.sockets) {
      (void)setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      socket = descriptor{};
    }
    c.now = connection::phase::closed;
    return;
  }
  for (const descriptor& socket : c.sockets)
    (void)shutdown(socket.get(), SHUT_WR);
  c.now = connection::phase::draining;
}

void fault_proxy::engine::drop_held(connection& c) {
  for (std::size_t way = 0; way < 2; ++way) {
    lane& l = c.lanes[way];
    total(way).dropped += l.held;
    l.held = 0;
    l.chunks.clear();
  }
}

}  // namespace atbus::test
