// The unconfirmed connections of a listener, grouped by origin. Chooses the one that is closed to make room
// for a new connection.
//
// Guarantees:
//  - The origin with the most connections loses one. An origin that opens thousands of connections per
//    second closes its own ones, never those of an origin with fewer.
//  - Of one origin, the oldest silent connection is closed first. No connection is closed before it was read
//    once, and one with unread bytes is spared once.
//  - Memory is one entry per connection. A choice takes a few steps; system calls are at most one per
//    accepted connection.
//
// One thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "channel/stream/line.h"
#include "channel/stream/stream_link.h"

namespace atbus::detail {

// An IPv4 address; the first 64 bits of an IPv6 address, because a host or site chooses the rest; or the user
// at the other end of a Unix socket.
struct peer_origin {
  int family = 0;
  std::uint64_t value = 0;

  friend auto operator<=>(const peer_origin&, const peer_origin&) = default;
};
[[nodiscard]] peer_origin origin_of(int fd) noexcept;

struct newcomer_group;

// The base class of the owner's record of a connection.
struct newcomer {
  stream_link* newcomer_link = nullptr;
  newcomer_group* group = nullptr;  // null: not in the set
  bool has_spoken = false;
  bool was_spared = false;
  line_place<newcomer> place;
};

struct newcomer_group {
  line<newcomer, &newcomer::place> silent;  // oldest first; not known to have sent anything
  line<newcomer, &newcomer::place> spoken;  // oldest first
  peer_origin from;
  std::pair<std::size_t, std::uint64_t> rank;  // size, then the time of its last change
};

class newcomers {
 public:
  newcomers() = default;
  newcomers(const newcomers&) = delete;
  newcomers& operator=(const newcomers&) = delete;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // The number of connections of the largest group.
  [[nodiscard]] std::size_t most_of_one() const noexcept {
    return empty() ? 0 : ranked_.rbegin()->first.first;
  }

  // `over` outlives its place here. Throws std::bad_alloc; then `who` has not joined.
  void join(newcomer& who, stream_link& over);
  void leave(newcomer& who) noexcept;

  // The connection to close. Null: some connections have to be read first. The set must not be empty.
  [[nodiscard]] newcomer* next_to_go() noexcept;

 private:
  void change_rank(newcomer_group& of, std::size_t size) noexcept;

  std::map<peer_origin, newcomer_group> groups_;
  std::map<std::pair<std::size_t, std::uint64_t>, newcomer_group*> ranked_;
  std::size_t size_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace atbus::detail
