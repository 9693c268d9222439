// What a connection_set keeps of each listener and each connection. Plain data: connection_set.h has
// the rules.
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
#include "channel/stream/line.h"
#include "channel/stream/message_run.h"
#include "channel/stream/newcomers.h"
#include "channel/stream/opening.h"
#include "channel/stream/stream_link.h"

namespace atbus::detail {

struct listener_entry;

// What epoll is told of a connection: not where it is, because a child forked a moment ago may still
// hold the socket of one that is gone, and then epoll still speaks of it. An odd number: listeners,
// which are told by their place, and which epoll is told to forget before they go, have even ones.
[[nodiscard]] constexpr std::uint64_t epoll_tag(std::uint64_t connection_id) noexcept {
  return connection_id << 1U | 1U;
}

struct connection_entry : newcomer {
  enum class phase : std::uint8_t { resolving, connecting, waiting, linked, closed };

  std::uint64_t id = 0;
  std::string peer;
  listener_entry* listener = nullptr;  // null once that is closed, and if it was dialled
  std::string listener_address;
  std::unique_ptr<dialler> dial;  // null if it was accepted
  std::unique_ptr<send_queue> queue;
  std::unique_ptr<stream_link> link;
  lane_pairing pairing;  // of this link
  hello own;
  void* context = nullptr;
  // Tells its messages, with `context`, instead of on_message: those of a run, `most` of them, uncounted
  // by the set. Returns how many.
  std::size_t (*reader)(void* context, message_run& run, std::size_t most) = nullptr;

  release_policy release = release_policy::on_write;
  bool user_confirms = false;
  std::uint32_t unconfirmed_limit = 0;  // payload bytes of a message until then; 0: no other one
  std::chrono::nanoseconds confirm_timeout{0};
  std::chrono::nanoseconds connect_timeout{0};
  std::chrono::nanoseconds linger{0};

  phase now = phase::waiting;
  error why;                  // of the end
  bool retrying = false;      // waits within an attempt: the listener's backlog is full
  bool told = false;          // on_open was
  bool opened = false;        // this link: the other's hello is there and on_open was told
  bool confirmed = false;     // this link counts as such
  bool confirm_said = false;  // the user has called confirm() for this link
  bool paused = false;
  bool closing = false;    // close() was called
  bool peer_done = false;  // the other end's goodbye is there
  bool goodbye = false;    // ours is said
  bool shut = false;       // and written: our half is closed
  bool more = false;       // complete frames may be left from the last read
  bool dirty = false;      // in the list of those to be written
  bool due = false;        // in the list of those whose handlers are to be told
  bool wants_writable = false;
  bool writable_due = false;
  bool blocked = false;           // the kernel did not take all
  std::uint32_t watched_for = 0;  // epoll's events for the socket; 0: not in it
  std::size_t release_debt = 0;   // messages to be released once the one begun is written
  bool resend_due = false;        // all the others are to be written again then
  std::chrono::nanoseconds phase_ends_at{0};  // connecting, waiting, unconfirmed; 0: never
  std::chrono::nanoseconds connect_ends_at{0};
  std::chrono::nanoseconds linger_ends_at{0};
  std::chrono::nanoseconds starved_until{0};  // 0: it is not
  std::chrono::nanoseconds timer_at{0};       // in the set of timers; 0: not there

  std::size_t limit = 0;  // payload bytes of the longest message that may be sent
  frame_chunk chunk;      // taken in with settle()
  std::uint64_t claims = 0;
  std::uint64_t write_at = 0;  // in the queue's count of committed bytes
  std::uint64_t links = 0;     // so many times it was connected
  std::uint64_t released = 0;  // frames, if that is the user's to say
  frame_marks marks;

  line_place<connection_entry> turn;  // in the line of those to be read

  // Bytes that were accepted and are not released.
  [[nodiscard]] std::size_t queued() const noexcept { return queue->size() + chunk.appended(); }
  [[nodiscard]] bool ending() const noexcept { return closing || peer_done; }
};

struct listener_entry {
  listener_entry(listening_socket socket, int epoll, const listen_options& wanted)
      : door(std::move(socket), epoll, this), options(wanted) {}

  acceptor door;
  listen_options options;
  bool local = false;
  bool offers_lanes = false;
  std::size_t connections = 0;  // not closed
  newcomers unconfirmed;
};

}  // namespace atbus::detail
