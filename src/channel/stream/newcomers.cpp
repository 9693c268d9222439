#include "channel/stream/newcomers.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <limits>

namespace atbus::detail {

peer_origin origin_of(int fd) noexcept {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return {};
  peer_origin from{.family = storage.ss_family};
  if (storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof in);
    from.value = in.sin_addr.s_addr;
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &storage, sizeof in);
    std::memcpy(&from.value, &in.sin6_addr, sizeof from.value);
  } else {
    ucred peer{};
    length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
      from.value = peer.uid;
  }
  return from;
}

// A group that has a rank keeps its node of the map, so that no memory is needed.
void newcomers::change_rank(newcomer_group& of, std::size_t size) noexcept {
  auto node = ranked_.extract(of.rank);
  of.rank = {size, std::numeric_limits<std::uint64_t>::max() - ++changes_};
  node.key() = of.rank;
  if (size != 0)
    ranked_.insert(std::move(node));
}

void newcomers::join(newcomer& who, stream_link& over) {
  const peer_origin from = origin_of(over.descriptor());
  const auto [place, is_new] = groups_.try_emplace(from);
  newcomer_group& group = place->second;
  if (is_new) {
    group.from = from;
    group.rank = {0, std::numeric_limits<std::uint64_t>::max() - ++changes_};
    try {
      ranked_.emplace(group.rank, &group);
    } catch (...) {
      groups_.erase(place);
      throw;
    }
  }
  who.newcomer_link = &over;
  who.group = &group;
  who.has_spoken = who.was_spared = false;
  group.silent.join(who);
  change_rank(group, group.rank.first + 1);
  ++size_;
}

void newcomers::leave(newcomer& who) noexcept {
  newcomer_group* const group = std::exchange(who.group, nullptr);
  if (group == nullptr)
    return;
  (who.has_spoken ? group->spoken : group->silent).leave(who);
  change_rank(*group, group->rank.first - 1);
  --size_;
  if (group->rank.first == 0)
    groups_.erase(peer_origin{group->from});
}

newcomer* newcomers::next_to_go() noexcept {
  newcomer_group& group = *ranked_.rbegin()->second;
  while (newcomer* const oldest = group.silent.first()) {
    if (!oldest->newcomer_link->was_read())
      return nullptr;
    if (oldest->newcomer_link->bytes_read() == 0 && oldest->newcomer_link->unread() == 0)
      return oldest;
    group.silent.leave(*oldest);
    oldest->has_spoken = true;
    group.spoken.join(*oldest);
  }
  for (;;) {
    newcomer* const oldest = group.spoken.first();
    if (oldest->was_spared || oldest->newcomer_link->unread() == 0)
      return oldest;
    oldest->was_spared = true;
    group.spoken.leave(*oldest);
    group.spoken.join(*oldest);
  }
}

}  // namespace atbus::detail
