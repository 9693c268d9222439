// Connections of a listener that have not been confirmed, by where they come from, and which of them
// makes room for another one.
//
// Guarantees:
//  - The address that has most of them loses one. An address with thousands of connections a second
//    pushes out its own, and no handshake of an address that has fewer.
//  - Of one address the oldest that has not said a word goes first. None goes before it was read
//    once, and one whose bytes wait to be read is passed over once.
//  - An entry for each connection, none for those that are gone. Choosing costs a few steps and no
//    more system calls than there were connections.
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

// An IPv4 address, the first 64 bits of an IPv6 address (what one host or site may choose the rest
// of), the user at the other end of a Unix socket.
struct peer_origin {
  int family = 0;
  std::uint64_t value = 0;

  friend auto operator<=>(const peer_origin&, const peer_origin&) = default;
};
[[nodiscard]] peer_origin origin_of(int fd) noexcept;

struct newcomer_group;

// What the owner's record of a connection is derived from.
struct newcomer {
  stream_link* newcomer_link = nullptr;
  newcomer_group* group = nullptr;  // null: it is not among newcomers
  bool has_spoken = false;
  bool was_spared = false;
  line_place<newcomer> place;
};

struct newcomer_group {
  line<newcomer, &newcomer::place> silent;  // the oldest first; also those not known to have spoken
  line<newcomer, &newcomer::place> spoken;  // the same
  peer_origin from;
  std::pair<std::size_t, std::uint64_t> rank;  // size; among equals the one that has it longest
};

class newcomers {
 public:
  newcomers() = default;
  newcomers(const newcomers&) = delete;
  newcomers& operator=(const newcomers&) = delete;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // How many the address has that has most.
  [[nodiscard]] std::size_t most_of_one() const noexcept {
    return empty() ? 0 : ranked_.rbegin()->first.first;
  }

  // `over` outlives its place here.
  void join(newcomer& who, stream_link& over) noexcept;
  void leave(newcomer& who) noexcept;

  // Which one is to make room. Null: some have to be read first. Not to be asked when empty.
  [[nodiscard]] newcomer* next_to_go() noexcept;

 private:
  void change_rank(newcomer_group& of, std::size_t size);

  std::map<peer_origin, newcomer_group> groups_;
  std::map<std::pair<std::size_t, std::uint64_t>, newcomer_group*> ranked_;
  std::size_t size_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace atbus::detail
