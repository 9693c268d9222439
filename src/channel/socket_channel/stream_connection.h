// One accepted connection of a receiver.
//
// One thread at a time: it may go from one shard of the address to another, as a whole, when its sender is known.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "channel/stream/last_look.h"
#include "channel/stream/line.h"
#include "channel/stream/newcomers.h"
#include "channel/stream/opening.h"
#include "channel/stream/read_buffer.h"
#include "channel/stream/stream_link.h"
#include "system/kernel.h"
#include "tls/tls_socket.h"

namespace atbus::detail {

struct stream_connection : newcomer {
  stream_connection(file socket, const hello& own, read_space& space,
                    std::unique_ptr<tls_socket> tls) noexcept
      : link(std::move(socket), true, own, nullptr, space, std::move(tls)) {}

  [[nodiscard]] bool is_known() const noexcept { return confirmed; }

  stream_link link;
  std::uint32_t number = 0;
  // The epoll tag: odd and never used again. A forked child may still hold the socket of a connection that
  // is gone, and then epoll still reports it.
  std::uint64_t tag = 0;
  std::size_t open_at = 0;                  // in open_
  line_place<stream_connection> turn;       // in the line of busy connections
  line_place<stream_connection> probation;  // in the line of unconfirmed connections
  bool confirmed = false;
  bool more = false;                     // complete frames may be left from the last read
  bool has_read = false;                 // in this turn
  bool on_chance = false;                // in this turn it is read without an event from epoll
  bool brings_one = false;               // it sends one short message at a time
  std::uint32_t watched = EPOLLIN;       // epoll's events for the socket
  bool faulty = false;                   // impossible bytes have come
  bool has_lane = false;                 // a lane was offered
  bool uses_lane = false;                // messages of its lane are delivered
  std::chrono::nanoseconds asked_at{0};  // before it was accepted
  std::chrono::nanoseconds close_at{0};  // unless it is confirmed by then
  last_look look;                        // when its time is over
  bool is_late = false;                  // in late_
};

}  // namespace atbus::detail
