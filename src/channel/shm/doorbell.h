// Doorbells wake a sleeping end of a segment, and report the death of an end as an event.
//
// The receiver listens on a Unix socket beside its segment, and each sender connects to it. A ring is one
// byte in either direction; an end-of-file means that the other side has died. A doorbell only says "look":
// every decision rests on the kernel's locks and on the lanes. So a lost, repeated or forged ring costs
// one look. A sender that rings often gets an eventfd for that: it costs both sides less, and each a descriptor.
//
// A sender without a connection (its receiver was restarted, or a process is out of descriptors) has
// another bell: the segment's file. While there is such a sender, the receiver watches the file with
// inotify. The sender's death closes the file. A sender that can't connect rings by touching the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "atbus/status.hpp"
#include "channel/shm/segment.h"
#include "system/kernel.h"

namespace atbus::detail {

class lane_shards;

// A connection whose lane is known, on its way to another server.
struct passed_bell {
  file peer;
  std::uint32_t lane = 0;
};

// The receiver's end: a listening socket and one connection per sender, behind one epoll
// descriptor.
class bell_server {
 public:
  // Events since the last look.
  struct events {
    bool rung = false;             // a sender published into a parked lane
    bool look_everywhere = false;  // a connection came or went: look at every lane
    bool file_closed = false;      // a process closed the segment, perhaps by its death
  };

  // Binds the bell and replaces one that a dead receiver left. The caller holds the receiver's lock on `s`.
  [[nodiscard]] error open(const segment& s);

  // For one of several receivers of a segment (lane_shards.h), which outlive it: its connections come from their
  // front, the bell that was opened.
  [[nodiscard]] error open(const segment& s, lane_shards& shards, std::uint32_t shard);
  // Makes this one their front.
  void pass_on_to(lane_shards& shards) noexcept { front_of_ = &shards; }
  // Most connections at a time.
  [[nodiscard]] static std::size_t connections_max(std::uint32_t lane_count) noexcept {
    return 2 * std::size_t{lane_count} + 16;
  }

  // Takes over a connection for a lane. For handed segments, whose bells have no address.
  [[nodiscard]] bool adopt(file peer, std::uint32_t lane) noexcept;

  // Readable while there is something for `take_events` (level-triggered). Owned by this object.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

  // Waits up to `timeout_ns` (negative: no limit, 0: not at all). Then accepts, reads and closes
  // connections.
  events take_events(std::int64_t timeout_ns) noexcept;

  // How long the owner may sleep until it looks at what the kernel had no memory for. Negative: any time.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  // Whether that time is over.
  [[nodiscard]] bool is_due() const noexcept;

  // Wakes the sender of a lane. False if it has no connection.
  bool ring(std::uint32_t lane) noexcept;
  [[nodiscard]] bool has_connection(std::uint32_t lane) const noexcept;
  // True once after a connection of that lane has ended, even one that opened and closed between two looks.
  [[nodiscard]] bool take_ended(std::uint32_t lane) noexcept;
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

  // From now on, the file reports senders without a connection. False: the kernel refuses.
  bool watch_file(const segment& s) noexcept;
  [[nodiscard]] bool watches_file() const noexcept { return static_cast<bool>(file_watch_); }
  void unwatch_file() noexcept;

  void abandon() noexcept;

 private:
  static constexpr std::uint32_t no_lane = 0xffffffff;
  static constexpr std::size_t nothing = ~std::size_t{0};
  struct connection {
    file fd;
    file event;  // an eventfd, through which its sender rings
    std::uint32_t lane = no_lane;
    std::uint32_t rings = 0;  // through the socket
    std::size_t next_of_lane = nothing;
    bool rests = false;
  };

  [[nodiscard]] error make_epoll(const segment& s);
  [[nodiscard]] error bind(const segment& s);
  bool accept_all(events& seen) noexcept;
  void admit(file peer, events& seen) noexcept;
  // An index for a new connection; `limit_` if there is none.
  [[nodiscard]] std::size_t find_place() noexcept;
  // Stores a connection at an index of `find_place`; it has no lane yet.
  connection& fill_place(std::size_t index, file peer) noexcept;
  // False: the connection is over, or another server's.
  bool read_from(connection& c, events& seen) noexcept;
  // Takes what the front has passed on.
  void take_passed() noexcept;
  // Sends an eventfd to a connection's sender. On failure the sender goes on ringing through the socket.
  void give_event(connection& c) noexcept;
  void take_event_back(connection& c) noexcept;
  void end(connection& c) noexcept;
  // Adds it to its lane's list, or removes it.
  void join(connection& c, std::uint32_t lane) noexcept;
  void leave(connection& c) noexcept;
  // The kernel refuses what waits at this descriptor, which stays readable: for a while, only what is new there
  // is an event. Then all of them are looked at again.
  void rest(int fd, std::uint64_t tag, bool& rests) noexcept;
  void rest_no_more() noexcept;
  [[nodiscard]] std::size_t index_of(const connection& c) const noexcept {
    return static_cast<std::size_t>(&c - connections_.data());
  }
  void read_file_watch(events& seen) noexcept;

  file epoll_;
  file listener_;
  file file_watch_;
  file
      spare_;  // closed for a moment when descriptors run out, to accept a waiting connection: otherwise
               // the listener would stay readable and the receiver would spin
  std::vector<connection> connections_;
  std::vector<std::size_t> free_;   // unused places in connections_
  std::vector<std::size_t> first_;  // per lane, the first of its connections
  std::vector<char> ended_;         // per lane, see take_ended
  std::size_t limit_ = 0;
  std::size_t events_ = 0;      // eventfds of connections_
  std::size_t next_to_go_ = 0;  // where the search for a silent connection continues
  std::uint32_t lane_count_ = 0;
  bool in_process_ = false;
  bool listener_rests_ = false;
  std::chrono::nanoseconds rests_until_{0};  // 0: none rests
  std::uint64_t refused_ = 0;
  lane_shards* front_of_ = nullptr;
  lane_shards* shards_ = nullptr;
  std::uint32_t shard_ = 0;
  std::vector<passed_bell> passed_;  // scratch
};

// The sender's end.
class bell_client {
 public:
  // Connects to the receiver's bell; the connection itself counts as a ring. False: no connection (errno
  // tells why).
  [[nodiscard]] bool connect(const segment_name& name, std::uint32_t lane) noexcept;
  // Takes a connection that was handed over with the segment.
  void adopt(file fd) noexcept { fd_ = std::move(fd); }
  [[nodiscard]] bool connected() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  // False: either the other side is gone and the connection is now closed, or the kernel has no memory. Through an
  // eventfd, the other side's end is not noticed.
  [[nodiscard]] bool ring() noexcept;
  // Takes the eventfd that the receiver may have sent, now and then. Reads pending rings like drain().
  void look_for_event() noexcept;
  // Rings without a connection.
  static void ring_by_file(const segment& s) noexcept {
    (void)kernel().futimens(s.fd.get(), nullptr);
  }
  // Reads pending rings. False: the other side is gone and the connection is now closed.
  bool drain() noexcept;
  void close() noexcept;

 private:
  [[nodiscard]] bool try_connect(const segment_name& name, std::uint32_t lane);
  // Reads one ring, and keeps the eventfd that came with it. Returns what recvmsg does.
  [[nodiscard]] ssize_t read_ring() noexcept;

  file fd_;
  file event_;               // an eventfd of the receiver's, which it waits for
  std::uint32_t rings_ = 0;  // through the socket
};

}  // namespace atbus::detail
