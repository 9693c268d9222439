// A listener and the connections it accepted, as one receiver.
//
// One epoll instance watches everything; its descriptor is the receiver's. Connections that have
// something to read are on a list of busy ones and take turns, one read each.
//
// Guarantees:
//  - A peer costs at most: its slot, a partial frame (read_buffer.h), one read of its turn. What it
//    announces reserves nothing.
//  - Who says nothing is closed after the confirm timeout, or earlier when others want in: beyond
//    `most_unconfirmed` one of the address that has most of them (newcomers.h).
//  - Impossible bytes end their connection, are counted and reported (at most once a second); the
//    others go on.
//  - Out of descriptors: accepting pauses for a moment, what is connected goes on.
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
#include "channel/stream/acceptor.h"
#include "channel/stream/line.h"
#include "channel/stream/newcomers.h"
#include "channel/stream/opening.h"
#include "channel/stream/poll_rhythm.h"
#include "channel/stream/read_buffer.h"
#include "channel/stream/stream_link.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "system/socket.h"
#include "system/spin_budget.h"

namespace atbus::detail {

class stream_receiver final : public frame_inbox, public fork_guard {
 public:
  [[nodiscard]] static result<receiver_backend*> open(const atbus::address& where,
                                                      const receiver_options& options);

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
  struct connection : newcomer {
    connection(file socket, const hello& own, read_space& space) noexcept
        : link(std::move(socket), true, own, nullptr, space) {}

    stream_link link;
    std::uint32_t number = 0;
    // What epoll is told of it: odd, and never the same again. A child forked a moment ago may still
    // hold the socket of one that is gone, and then epoll still speaks of it.
    std::uint64_t tag = 0;
    std::size_t open_at = 0;           // in open_
    line_place<connection> turn;       // among the busy ones
    line_place<connection> probation;  // among the unconfirmed ones, for its time
    bool confirmed = false;
    bool more = false;                     // complete frames may be left from the last read
    bool has_read = false;                 // in this turn
    bool on_chance = false;                // its turn: nobody has said that something is there
    bool brings_one = false;               // short message at a time
    std::uint32_t watched = EPOLLIN;       // epoll's events for the socket
    bool faulty = false;                   // impossible bytes have come
    bool has_lane = false;                 // was offered one
    bool uses_lane = false;                // what is in it is delivered
    std::chrono::nanoseconds close_at{0};  // unless it is confirmed by then
  };

  stream_receiver(listening_socket listener, file epoll, const receiver_options& options,
                  bool local, bool offers_lanes);
  ~stream_receiver() override;
  void stop() noexcept override;
  void destroy() noexcept override;

  bool fill(bool quick) noexcept override;
  void reject(bytes_view message) noexcept override;
  // `quick`: without asking the kernel who has become ready.
  [[nodiscard]] bool anything(bool quick) noexcept {
    return some_lane_has_messages() || fill(quick) || (moved_on_ && some_lane_has_messages());
  }
  [[nodiscard]] bool some_lane_has_messages() noexcept {
    return lanes_ != nullptr && own_lanes().anything();
  }
  [[nodiscard]] receiver_state& own_lanes() noexcept {
    return static_cast<receiver_state&>(*lanes_);
  }
  // Who looks again and again need not ask the kernel each time which connections have something: a
  // read of each, if they are few, costs less and finds it sooner.
  void find_busy() noexcept;
  // Asks the kernel who is ready, and waits for it so long (negative: for ever).
  void look(std::int64_t timeout_ns) noexcept;
  void look_at_clock() noexcept;

  void accept_some() noexcept;
  // True: one more is welcome, if `goes` makes room for it where that is not null.
  [[nodiscard]] bool has_room(connection*& goes) noexcept;
  void add(file socket) noexcept;
  // Finds the messages that are there.
  void collect(connection& from) noexcept;
  void found_faulty(connection& which) noexcept;
  void opening_moved(connection& of) noexcept;
  void write_controls(connection& of) noexcept;
  void watch(connection& of) noexcept;
  void look_at_starved() noexcept;  // who found no memory tries again
  // Lanes of shared memory for a peer of this host that wants them.
  void offer_lane(connection& to) noexcept;
  [[nodiscard]] error make_lanes();
  // What the peer sent through its socket has been handed out: its lane's turn.
  void move_on_to_lane(connection& from) noexcept;
  void drop(connection& ended) noexcept;

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
  spin_budget spin_;

  std::vector<std::unique_ptr<connection>> slots_;  // a connection's number is its place
  std::vector<std::uint32_t> free_;                 // numbers
  std::vector<connection*> open_;
  receiver_options lane_options_;                         // of the lanes, when they are made
  bool lanes_refused_ = false;                            // the kernel has: not asked again
  line<connection, &connection::turn> busy_;              // whose turn it is, or comes
  line<connection, &connection::probation> unconfirmed_;  // the oldest first
  newcomers newcomers_;                                   // the same
  std::vector<std::unique_ptr<connection>> ended_;        // until nothing can refer to them
  connection* current_ = nullptr;                         // whose run it is, or whose turn
  bool look_due_ = false;  // who is ready besides the busy ones has not been asked for long enough
  poll_rhythm rhythm_;
  std::chrono::nanoseconds starved_until_{0};  // 0: nobody is
  std::uint64_t faulty_ = 0;
  std::uint64_t accepted_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace atbus::detail
