// The state of each listener and each connection of a connection_set. Plain data: connection_set.h has the
// rules.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/connection.hpp"
#include "atbus/detail/frame_chunk.hpp"
#include "atbus/detail/send_queue.hpp"
#include "atbus/status.hpp"
#include "channel/handover/lane_pairing.h"
#include "channel/stream/acceptor.h"
#include "channel/stream/dialler.h"
#include "channel/stream/frame_marks.h"
#include "channel/stream/frame_queue.h"
#include "channel/stream/last_look.h"
#include "channel/stream/line.h"
#include "channel/stream/message_run.h"
#include "channel/stream/newcomers.h"
#include "channel/stream/opening.h"
#include "channel/stream/stream_link.h"
#include "core/timer_queue.h"
#include "tls/tls_access.h"

namespace atbus::detail {

struct listener_entry;

// The epoll tag of a connection. It is not the connection's address: a forked child may still hold the
// socket of a connection that is gone, and then epoll still reports it. The tag is odd. Listeners use their
// address, which is even; they are removed from epoll before they are destroyed.
[[nodiscard]] constexpr std::uint64_t epoll_tag(std::uint64_t connection_id) noexcept {
  return connection_id << 1U | 1U;
}

struct connection_entry : newcomer {
  enum class phase : std::uint8_t { resolving, connecting, waiting, linked, closed };

  explicit connection_entry(timer_queue& timers) : clock(timers, {}) {}

  std::uint64_t id = 0;
  std::string peer;
  listener_entry* listener = nullptr;  // null once that is closed, and if it was dialled
  std::string listener_address;
  std::unique_ptr<dialler> dial;  // null if it was accepted
  std::unique_ptr<send_queue> queue;
  std::unique_ptr<stream_link> link;
  lane_pairing pairing;  // of this link
  // When its time is over. Each has its own look: messages read at one deadline do not use up that of the other.
  last_look look_after_phase;  // of this link
  last_look look_after_linger;
  hello own;
  tls_sessions tls;
  void* context = nullptr;
  // Receives the messages instead of on_message: at most `most` of a run. Returns how many it took; the set
  // does not count them.
  std::size_t (*reader)(void* context, message_run& run, std::size_t most) = nullptr;

  release_policy release = release_policy::on_write;
  bool user_confirms = false;
  bool carried = false;  // by a carrier: nothing is known of where the other end is
  std::uint32_t unconfirmed_limit =
      0;  // message limit until confirmed, in bytes; 0: the usual limit
  std::chrono::nanoseconds confirm_timeout{0};
  std::chrono::nanoseconds connect_timeout{0};
  std::chrono::nanoseconds linger{0};

  phase now = phase::waiting;
  error why;                  // of the end
  bool retrying = false;      // waits within an attempt: the listener's backlog is full
  bool told = false;          // on_open was called
  bool opened = false;        // this link: the peer's hello has arrived and on_open was called
  bool confirmed = false;     // this link is confirmed
  bool confirm_said = false;  // the user has called confirm() for this link
  bool paused = false;
  bool closing = false;    // close() was called
  bool peer_done = false;  // the peer's goodbye has arrived
  bool goodbye = false;    // this end's goodbye is queued
  bool shut = false;       // and written: the sending half is closed
  bool more = false;       // complete frames may be left from the last read
  bool wants_writable = false;
  bool writable_due = false;
  bool blocked = false;           // the kernel did not take all
  std::uint32_t watched_for = 0;  // epoll's events for the socket; 0: not in epoll
  std::size_t release_debt = 0;   // messages to release once the partly written one is complete
  bool resend_due = false;        // then all other messages are written again
  std::chrono::nanoseconds phase_ends_at{0};  // connecting, waiting, unconfirmed; 0: never
  std::chrono::nanoseconds connect_ends_at{0};
  std::chrono::nanoseconds linger_ends_at{0};
  std::chrono::nanoseconds starved_until{0};  // 0: not starved of memory
  std::chrono::nanoseconds timer_at{0};       // the time of `clock`; 0: not set
  timer clock;

  std::size_t limit = 0;  // payload bytes of the longest message that may be sent
  frame_chunk chunk;      // settle() adds its frames to the queue
  std::uint64_t claims = 0;
  std::uint64_t write_at = 0;  // in the queue's count of committed bytes
  std::uint64_t links = 0;     // how often it was connected
  std::uint64_t released = 0;  // frames, if the user releases them
  frame_marks marks;

  line_place<connection_entry> turn;   // in the line of connections to be read
  line_place<connection_entry> dirty;  // in that of connections to be written
  line_place<connection_entry> due;    // in that of connections whose handlers are to be called
  line_place<connection_entry> asked;  // in that of connections that began a name lookup

  // Not a stranger.
  [[nodiscard]] bool is_known() const noexcept { return dial != nullptr || confirmed; }
  // Bytes accepted and not released.
  [[nodiscard]] std::size_t queued() const noexcept { return queue->size() + chunk.appended(); }
  [[nodiscard]] bool ending() const noexcept { return closing || peer_done; }
};

struct listener_entry {
  listener_entry(listening_socket socket, int epoll, const listen_options& wanted)
      : door(std::move(socket), epoll, this), options(wanted), unconfirmed(wanted.strangers) {}

  acceptor door;
  listen_options options;
  bool carried = false;
  bool local = false;
  bool offers_lanes = false;
  tls_sessions tls;
  std::size_t connections = 0;  // not closed
  newcomers unconfirmed;
};

}  // namespace atbus::detail
