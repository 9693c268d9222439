// The unconfirmed connections of a listener, grouped by origin. Keeps the limits for strangers: chooses which
// connection is closed, and which one waits before its first bytes are read.
//
// Guarantees:
//  - The origin with the most connections loses one. An origin that opens thousands of connections per
//    second closes its own ones, never those of an origin with fewer.
//  - Of one origin, the oldest silent connection is closed first. No connection is closed before it was read
//    once, and one with unread bytes is spared once.
//  - Connections wait for the rate of handshakes here, where the limits by origin hold for them, and not in the
//    kernel's backlog, which one origin can fill. Origins take turns, so that a crowd of one does not delay the others.
//  - Memory is one entry per connection. A choice takes a few steps. System calls: one or two to learn the origin,
//    and one at each look for first bytes; connections that wait are not looked at.
//
// One thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "atbus/status.hpp"
#include "atbus/strangers.hpp"
#include "channel/stream/line.h"
#include "channel/stream/stream_link.h"
#include "core/link_origin.h"
#include "core/rate_limit.h"

namespace atbus::detail {

// What connections of one sender share: an IPv4 address, the first 64 bits of an IPv6 address, or the user at the
// other end of a Unix socket.
struct newcomer_origin {
  link_origin::place where = link_origin::place::unknown;
  std::uint32_t user = 0;
  network_address address{};

  friend auto operator<=>(const newcomer_origin&, const newcomer_origin&) = default;
};

// Why a connection is closed before it was confirmed.
enum class stranger_end : std::uint8_t { silent, late, crowded, talkative };
// What its owner reports; the text names the option.
inline constexpr const char* handshake_waits =
    "too many connections begin at a time, some wait (stranger_limits::handshakes_per_second)";
[[nodiscard]] error explain(stranger_end why) noexcept;
void count(stranger_end why, stranger_stats& in) noexcept;

struct newcomer_group;

// The base class of the owner's record of a connection.
struct newcomer {
  stream_link* newcomer_link = nullptr;
  newcomer_group* group = nullptr;  // null: not in the set
  bool seen_to_speak = false;       // in the group's line `spoken`
  bool was_spared = false;
  bool has_begun = false;  // its first bytes may be read
  std::chrono::nanoseconds silent_until{0};
  line_place<newcomer> place;
  line_place<newcomer> silence;  // in the line of those that have not been seen to speak
  line_place<newcomer> queue;    // in the line of those of its group that wait to be read
};

// Those of one origin.
struct newcomer_group {
  line<newcomer, &newcomer::place> silent;   // oldest first; not known to have sent anything
  line<newcomer, &newcomer::place> spoken;   // oldest first
  line<newcomer, &newcomer::queue> waiting;  // to be read for the first time
  line_place<newcomer_group> turn;           // in the line of groups with waiting ones
  newcomer_origin from;
  std::pair<std::size_t, std::uint64_t> rank;  // size, then the time of its last change
};

class newcomers {
 public:
  explicit newcomers(const stranger_limits& limits) noexcept
      : limits_(limits), handshakes_(limits.handshakes_per_second) {}
  newcomers(const newcomers&) = delete;
  newcomers& operator=(const newcomers&) = delete;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // The number of connections of the largest group.
  [[nodiscard]] std::size_t most_of_one() const noexcept {
    return empty() ? 0 : ranked_.rbegin()->first.first;
  }

  // `over` outlives its place here. Throws std::bad_alloc; then `who` has not joined.
  void join(newcomer& who, stream_link& over, std::chrono::nanoseconds time);
  void leave(newcomer& who) noexcept;

  // The connection to close. Null: some connections have to be read first. The set must not be empty.
  [[nodiscard]] newcomer* next_to_go() noexcept;
  // The connection to close because the origin of the latest one has more than it may: never the latest, as the
  // others could say a word each and keep every further one out. Null: none.
  [[nodiscard]] newcomer* next_of_too_many(const newcomer& latest) noexcept;
  // The connection to close because it has been silent for too long. Null: none.
  [[nodiscard]] newcomer* next_too_silent(std::chrono::nanoseconds time) noexcept;
  // Whether it has sent more than it may, beside a message of `longest_message` bytes.
  [[nodiscard]] bool says_too_much(const newcomer& who,
                                   std::uint64_t longest_message) const noexcept;

  // Whether it may be read. If not, it waits until it is the next to begin.
  [[nodiscard]] bool may_read(newcomer& who, std::chrono::nanoseconds time,
                              stranger_stats& counted) noexcept;
  [[nodiscard]] static bool waits(const newcomer& who) noexcept {
    return line<newcomer, &newcomer::queue>::holds(who);
  }
  // A connection that may be read from now on. Null: none.
  [[nodiscard]] newcomer* next_to_begin(std::chrono::nanoseconds time) noexcept;

  // When one is due that has been silent or has waited. max(): never.
  [[nodiscard]] std::chrono::nanoseconds due_at() const noexcept;

 private:
  // With `latest`: another one than that, also one that was never read.
  [[nodiscard]] static newcomer* next_of(newcomer_group& group, const newcomer* latest) noexcept;
  void wait(newcomer& who) noexcept;
  void wait_no_more(newcomer& who) noexcept;
  void change_rank(newcomer_group& of, std::size_t size) noexcept;

  const stranger_limits limits_;
  rate_limit handshakes_;
  line<newcomer, &newcomer::silence> silent_;  // oldest first
  line<newcomer_group, &newcomer_group::turn> turns_;
  std::map<newcomer_origin, newcomer_group> groups_;
  std::map<std::pair<std::size_t, std::uint64_t>, newcomer_group*> ranked_;
  std::size_t size_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace atbus::detail
