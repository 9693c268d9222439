// Doorbells: how a sleeping end of a segment is woken, and how a death is noticed as an event.
//
// Beside each segment its receiver listens on a Unix socket; each sender is connected there. A ring
// is one byte in either direction, an end-of-file is the death of the other side. Doorbells only
// ever say "look": no decision rests on them, the kernel's locks and the lanes themselves tell what
// is so. Lost, repeated and forged rings cost one look.
//
// A sender without a connection (its receiver was restarted, or somebody is out of descriptors) has
// another bell: the segment's file. The receiver watches it with inotify as long as there is such a
// sender. The death of one closes the file, and one that can't connect rings by touching it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "atbus/status.hpp"
#include "channel/shm/segment.h"
#include "system/kernel.h"

namespace atbus::detail {

// The receiver's end: a listening socket and one connection per sender, behind one epoll
// descriptor.
class bell_server {
 public:
  // What happened since the last look.
  struct events {
    bool rung = false;             // some sender published into a parked lane
    bool look_everywhere = false;  // a connection came or went: look at every lane
    bool file_closed = false;      // a process closed the segment, perhaps by its death
  };

  // The caller holds the receiver's lock on `s`. Replaces what a dead receiver left.
  [[nodiscard]] error open(const segment& s);

  // Takes over a connection of a lane; for handed segments, whose bells nobody can connect to.
  [[nodiscard]] bool adopt(file peer, std::uint32_t lane) noexcept;

  // Level-triggered: readable while there is something for `take_events`. Owned by this object.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

  // Waits up to `timeout_ns` (negative: for ever, 0: not at all), then accepts, reads and closes
  // whatever is due.
  events take_events(std::int64_t timeout_ns) noexcept;

  // Wakes the sender of a lane. False if it has no connection.
  bool ring(std::uint32_t lane) noexcept;
  [[nodiscard]] bool has_connection(std::uint32_t lane) const noexcept;
  // True once after a connection of that lane has ended, also one that came and went between two
  // looks.
  [[nodiscard]] bool take_ended(std::uint32_t lane) noexcept;
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

  // From now on a sender without a connection is an event too. False: the kernel refuses.
  bool watch_file(const segment& s) noexcept;
  [[nodiscard]] bool watches_file() const noexcept { return static_cast<bool>(file_watch_); }
  void unwatch_file() noexcept;

  void abandon() noexcept;

 private:
  static constexpr std::uint32_t no_lane = 0xffffffff;
  static constexpr std::size_t nothing = ~std::size_t{0};
  struct connection {
    file fd;
    std::uint32_t lane = no_lane;
    std::size_t next_of_lane = nothing;
  };

  [[nodiscard]] error bind(const segment& s);
  bool accept_all(events& seen) noexcept;
  void admit(file peer, events& seen) noexcept;
  // An index for a new connection; `limit_` if there is none.
  [[nodiscard]] std::size_t find_place() noexcept;
  // Puts it where `find_place` says; of no lane yet.
  connection& fill_place(std::size_t index, file peer) noexcept;
  // False: the connection is over.
  bool read_from(connection& c, events& seen) noexcept;
  void end(connection& c) noexcept;
  // Enters it into its lane's list, or takes it out.
  void join(connection& c, std::uint32_t lane) noexcept;
  void leave(connection& c) noexcept;
  [[nodiscard]] std::size_t index_of(const connection& c) const noexcept {
    return static_cast<std::size_t>(&c - connections_.data());
  }
  void read_file_watch(events& seen) noexcept;

  file epoll_;
  file listener_;
  file file_watch_;
  file spare_;  // given up for a moment when descriptors run out, so that waiting connections don't
                // make us spin
  std::vector<connection> connections_;
  std::vector<std::size_t> free_;   // places in connections_ without one
  std::vector<std::size_t> first_;  // per lane, the first of its connections: a look at every lane
                                    // does not look at every connection for each
  std::vector<char> ended_;         // per lane, see take_ended
  std::size_t limit_ = 0;
  std::size_t next_to_go_ = 0;  // where the search for a silent connection goes on
  std::uint32_t lane_count_ = 0;
  bool in_process_ = false;
  std::uint64_t refused_ = 0;
};

// The sender's end.
class bell_client {
 public:
  // Connects to the receiver's bell; the connection itself rings. False: nobody listens (errno says
  // why).
  [[nodiscard]] bool connect(const segment_name& name, std::uint32_t lane) noexcept;
  // One that was handed over with the segment.
  void adopt(file fd) noexcept { fd_ = std::move(fd); }
  [[nodiscard]] bool connected() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  // False: it did not, because the other side is gone, and the connection is closed, or because the
  // kernel has no memory.
  [[nodiscard]] bool ring() noexcept;
  // For want of a connection.
  static void ring_by_file(const segment& s) noexcept {
    (void)kernel().futimens(s.fd.get(), nullptr);
  }
  // Reads pending rings. False: the other side is gone, and the connection is closed.
  bool drain() noexcept;
  void close() noexcept;

 private:
  file fd_;
};

}  // namespace atbus::detail
