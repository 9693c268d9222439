// A listener and the connections it accepted, as one receiver.
//
// One epoll instance watches everything; its descriptor is the receiver's. Readable connections are in
// lines of busy ones and take turns, one read each (busy_lines.h).
//
// Guarantees:
//  - A peer costs at most its slot, a partial frame (read_buffer.h) and one read per turn. An announced
//    length reserves no memory.
//  - A connection that has not said hello within the confirm timeout is closed, and earlier where it exceeds a
//    limit for strangers (newcomers.h).
//  - Impossible bytes end their connection; they are counted, and reported at most once a second. Other
//    connections continue.
//  - Without free descriptors, accepting pauses for a moment; existing connections continue.
//
// Threads: the receiver's one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/detail/frame_inbox.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/socket_channel/stream_connection.h"
#include "channel/socket_channel/stream_shards.h"
#include "channel/stream/acceptor.h"
#include "channel/stream/busy_lines.h"
#include "channel/stream/line.h"
#include "channel/stream/newcomers.h"
#include "channel/stream/opening.h"
#include "channel/stream/poll_rhythm.h"
#include "channel/stream/read_buffer.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "system/socket.h"
#include "system/spin_budget.h"
#include "tls/tls_access.h"

namespace atbus::detail {

class stream_receiver final : public frame_inbox, public fork_guard {
 public:
  [[nodiscard]] static result<receiver_backend*> open(const atbus::address& where,
                                                      const receiver_options& options);
  // Several receivers that share the listener, each for a thread of its own.
  [[nodiscard]] static result<std::vector<receiver_backend*>> open_shards(
      const atbus::address& where, std::uint32_t count, const receiver_options& options);

  status wait(std::chrono::nanoseconds timeout) override;
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  [[nodiscard]] channel_stats stats() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  [[nodiscard]] std::uint64_t message_limit() const noexcept override { return message_limit_; }
  [[nodiscard]] std::uint32_t lane_count() const noexcept override { return most_connections_; }
  error remove() override;

  void abandon_in_child() noexcept override;

 private:
  using connection = stream_connection;

  stream_receiver(listening_socket listener, file epoll, const receiver_options& options,
                  tls_sessions tls, bool local, bool offers_lanes);
  ~stream_receiver() override;
  // What is the same for a receiver alone and for one of several.
  struct opening_door {
    listening_socket listener;
    tls_sessions tls;
  };
  [[nodiscard]] static result<opening_door> listen(const atbus::address& where,
                                                   const receiver_options& options);
  // `shards` null: alone.
  [[nodiscard]] static result<stream_receiver*> make(const atbus::address& where,
                                                     const receiver_options& options,
                                                     opening_door door,
                                                     std::shared_ptr<stream_shards> shards,
                                                     std::uint32_t shard);
  void stop() noexcept override;
  void destroy() noexcept override;

  bool fill(bool quick) noexcept override;
  void reject(bytes_view message) noexcept override;
  // `quick`: without asking the kernel for new events.
  [[nodiscard]] bool anything(bool quick) noexcept {
    return some_lane_has_messages() || fill(quick) || (moved_on_ && some_lane_has_messages());
  }
  [[nodiscard]] bool some_lane_has_messages() noexcept {
    return lanes_ != nullptr && own_lanes().anything();
  }
  [[nodiscard]] receiver_state& own_lanes() noexcept {
    return static_cast<receiver_state&>(*lanes_);
  }
  // Finds readable connections. A program that polls in a loop need not ask epoll each time: with few
  // connections, a read of each costs less and finds a message sooner.
  void find_busy() noexcept;
  // Asks the kernel for events and waits for them up to `timeout_ns` (negative: no limit).
  void look(std::int64_t timeout_ns) noexcept;
  void look_at_clock() noexcept;

  void accept_some() noexcept;
  // Whether one more connection may be accepted. If `goes` is not null, that one has to be closed first.
  [[nodiscard]] bool has_room(connection*& goes) noexcept;
  // False, with errno: the kernel does not watch it, or there is no memory, and it is closed.
  bool add(file socket, std::chrono::nanoseconds asked_at) noexcept;
  // A number for a new connection. If possible, one whose lane is free. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t take_number();
  // Finds the messages that have been read.
  void collect(connection& from) noexcept;
  void found_faulty(connection& which) noexcept;
  void report_end(const connection& which) noexcept;
  void opening_moved(connection& of) noexcept;
  void write_controls(connection& of) noexcept;
  void watch(connection& of) noexcept;
  void look_at_starved() noexcept;  // retries connections that found no memory
  void look_at_strangers(std::chrono::nanoseconds time) noexcept;
  void leave_probation(connection& of) noexcept { (of.is_late ? late_ : unconfirmed_).leave(of); }
  // If not, it has left the line of busy connections. It comes back if its handshake only has to wait.
  [[nodiscard]] bool may_read(connection& stranger) noexcept;
  // Offers a lane of shared memory to a peer on this host that asks for one.
  void offer_lane(connection& to) noexcept;
  [[nodiscard]] error make_lanes();
  // Called after all messages of the peer's socket are handed out: opens its lane.
  void move_on_to_lane(connection& from) noexcept;
  void drop(connection& ended) noexcept;
  // Takes it off all lists but that of its place.
  void unlist(connection& one) noexcept;
  // With shards: reads a stranger's hello, and passes its connection on where it belongs. It may be gone afterwards.
  void greet(connection& stranger) noexcept;
  void pass(connection& one, std::uint32_t to) noexcept;
  // One whose sender is known was closed before it began.
  void refused(error why) noexcept;
  void take_passed() noexcept;
  // False, with errno: the kernel refuses.
  [[nodiscard]] bool join(std::shared_ptr<stream_shards> shards, std::uint32_t shard) noexcept;
  static constexpr std::uint64_t box_tag = 2;  // even, as no connection's, and no pointer's
  void adopt(std::unique_ptr<connection> one) noexcept;
  // Gives it a number, which makes it one of open_. Throws std::bad_alloc.
  connection& settle(std::unique_ptr<connection>& one);
  void turn_away(connection& stranger, stranger_end why) noexcept;

  bool local_;  // a Unix socket
  file epoll_;
  acceptor door_;
  std::string address_;
  hello own_;
  std::uint64_t message_limit_;
  std::uint32_t most_connections_;
  std::uint32_t most_unconfirmed_;
  std::chrono::nanoseconds confirm_timeout_;
  read_space space_;
  tls_sessions tls_;
  tls_buffers tls_buffers_;
  spin_budget spin_;

  std::vector<std::unique_ptr<connection>> slots_;  // a connection's number is its place
  std::vector<std::uint32_t> free_;  // numbers, in the order of their connections' ends
  std::vector<connection*> open_;
  receiver_options lane_options_;                         // for making the lanes
  bool lanes_refused_ = false;                            // the kernel refused: do not ask again
  busy_lines<connection, &connection::turn> busy_;        // the connections to read
  line<connection, &connection::probation> unconfirmed_;  // the oldest first
  line<connection, &connection::probation> late_;  // the others of them, which are read once more
  newcomers newcomers_;                            // the same connections, by address
  // Kept until nothing can refer to them. There is room for each that is open.
  std::vector<std::unique_ptr<connection>> ended_;
  connection* current_ = nullptr;  // the connection that is being read
  bool look_due_ = false;          // it is time to ask epoll for more connections
  bool cut_short_ = false;  // the latest poll has ended at most_reads: some may be in line for long
  poll_rhythm rhythm_;
  std::chrono::nanoseconds starved_until_{0};  // 0: no connection is starved of memory
  std::uint64_t faulty_ = 0;
  std::uint64_t accepted_ = 0;
  std::uint64_t dropped_ = 0;
  stranger_stats strangers_;
  std::uint64_t tls_failed_ = 0;
  std::shared_ptr<stream_shards> shards_;  // null: it is the only one at its address
  std::uint32_t shard_ = 0;
};

}  // namespace atbus::detail
