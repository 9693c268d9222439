// Two-way connections through sockets, many of them on one thread: what nodes stand on.
//
//   auto set = atbus::connection_set::open({.on_message = [](atbus::connection from,
//                                                            atbus::bytes_view message) {
//     from.send(message);  // back to where it came from
//   }});
//   auto where = set->listen("ipv6://[::1]:0");            // the address with the port
//   auto out = set->connect("unix:///run/zone.sock");      // never blocks
//   out->send(atbus::as_bytes("leaves once it is connected"));
//   for (;;) {
//     set->wait(std::chrono::seconds{1});
//     set->poll();
//   }
//
// Ownership: a set owns its listeners and connections. A `connection` is a small value that refers
//   to one of them; once that is gone, or the set is, each verb says `closed`.
// Threads: one for a set and all that refers to it.
// Handlers run in poll alone, never inside one another and never inside another verb. Each may use
//   any verb: close, abort or open connections and listeners, close or destroy the set, fork. One
//   may throw; poll passes it on, and what it was told counts as told.
// Errors: what a peer does ends its connection and nothing else.
// Fork: in a forked child a set is unusable (used_after_fork); the parent's goes on undisturbed.
//
// doc/design/connection.md has the states and what each event does in each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class connection;
class connection_slot;

namespace detail {
class connection_core;
struct connection_anchor;
class lane_exchange;
}  // namespace detail

enum class connection_state : std::uint8_t {
  resolving,   // asking for the addresses of a dns:// name
  connecting,  // the other end's kernel has not answered
  waiting,     // for the next attempt (connect_options::reconnect_min)
  opening,     // connected; the other end's hello is awaited
  open,        // messages both ways
  closing,     // what was accepted still leaves, what the other end sends is still delivered
  closed,      // on_close is told next, or was
};
// As written above.
[[nodiscard]] ATBUS_API std::string_view name(connection_state state) noexcept;

enum class release_policy : std::uint8_t {
  on_write,  // a message leaves the queue when the kernel has taken all of it
  by_user,   // it stays until release(): a new connection or resend() sends it again
};

// Of a connection, however it came to be.
struct connection_options {
  socket_options socket = {};
  // The longest message in payload bytes, both ways; the other end's limit holds for sending too.
  // 0: ATBUS_MACRO_MSG_LIMIT.
  std::uint64_t message_limit = 0;
  // As in sender_options. What growing ones keep for later is shared by the whole set.
  send_buffer_kind buffer = send_buffer_kind::growing;
  std::uint64_t send_buffer_size = 0;
  std::uint64_t send_buffer_number = 0;
  release_policy release = release_policy::on_write;
  // How long the opening may take, from the moment when both kernels are connected; if
  // `user_confirms`, the time until confirm() too. 0: for ever.
  std::chrono::nanoseconds confirm_timeout = build_settings::connection_confirm_timeout;
  bool user_confirms = false;
  // If `user_confirms`: the longest message in payload bytes that is accepted before confirm(), so
  // that who has proven nothing takes little memory. Messages right behind the one whose handler
  // confirms may be longer. 0: the message limit.
  std::uint64_t unconfirmed_message_limit = 0;
  // When the other end closes: how long what was accepted here may take to leave.
  std::chrono::nanoseconds linger = std::chrono::seconds{1};
};

struct listen_options {
  connection_options connection = {};  // of each that is accepted
  int backlog = build_settings::connection_backlog;
  // As in receiver_options. One counts as unconfirmed until the other end has said hello and, if
  // `user_confirms`, confirm() was called.
  std::uint32_t connections = 4096;
  std::uint32_t unconfirmed = 256;
};

struct connect_options {
  connection_options connection = {};
  // For one attempt, with all addresses of a name; 0: the kernel's patience.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  // As in sender_options. Each new connection opens anew (on_open), and what was not released goes
  // out again, whole messages only.
  std::chrono::nanoseconds reconnect_min{0};
  std::chrono::nanoseconds reconnect_max = std::chrono::seconds{30};
};

struct connection_handlers {
  // Messages can be received from now on: first thing told of an accepted connection. Again after
  // each reconnect.
  std::function<void(connection)> on_open;
  // In place; the bytes are valid until it returns.
  std::function<void(connection, bytes_view)> on_message;
  // Told once after a would_block, when the queue has drained to half.
  std::function<void(connection)> on_writable;
  // Last thing told of a connection, once, also after close() and abort(). `why` is no error if the
  // connection was closed here, all that was accepted was written and the other end has ended its
  // half too. `connection::unsent` and `unreleased` work until it returns.
  std::function<void(connection, const error& why)> on_close;
  // What concerns no connection that was told of: peers that speak another protocol, no descriptors.
  std::function<void(const error&)> on_problem;
};

struct connection_set_options {
  // As in receiver_options.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  // What one read takes at most, in bytes; the memory is shared by all connections.
  std::size_t read_size = 512 * 1024;
  // Of nodes. Null: messages go through the sockets.
  detail::lane_exchange* lanes = nullptr;
  // What handlers have sent leaves at the end of poll. Off: for who has more to send then and calls
  // flush.
  bool flush_in_poll = true;
};

// Refers to a connection of a set. A plain value; a default-made one refers to none.
class ATBUS_API connection {
 public:
  connection() = default;

  // Queues a copy. It leaves with the next flush: at the end of poll, before sleep, when 256 KiB are
  // queued, or at flush(). Errors: would_block (the queue is full; on_writable tells when to go on),
  // message_too_large, closed (also while closing), used_after_fork, out_of_memory.
  status send(bytes_view message) const noexcept;
  // The pieces, one behind the other, as one message.
  status send(std::span<const bytes_view> pieces) const noexcept;
  status send(std::initializer_list<bytes_view> pieces) const noexcept {
    return send(std::span<const bytes_view>{pieces.begin(), pieces.size()});
  }
  // `length` bytes, 8-byte aligned, in the queue itself. The slot is false, and says why, for the
  // errors of send.
  [[nodiscard]] connection_slot claim(std::size_t length) const noexcept;
  // Hands the kernel what it takes now. would_block: something is left.
  status flush() const noexcept;

  // Stops and goes on reading. While reading rests the other end's queue fills, and its end is not
  // seen: what it sent before is read first, also if writing fails. Closing ends a pause.
  status pause() const noexcept;
  status resume() const noexcept;

  // The handshake of this end's user is done (connection_options::user_confirms).
  status confirm() const noexcept;

  // Of release_policy::by_user: lets go of the `messages` oldest, because the other end has them.
  // Returns how many there were. Those never written are not written any more.
  std::size_t release(std::size_t messages) const noexcept;
  // Writes everything that was not released again, on the same connection.
  status resend() const noexcept;

  // Ends it gracefully: what was accepted leaves, then a goodbye; what the other end sends meanwhile
  // is delivered; when its goodbye comes, or `linger` is over, on_close is told. Never blocks. A
  // second call can only shorten the time.
  status close(std::chrono::nanoseconds linger = std::chrono::seconds{1}) const noexcept;
  // Ends it now. on_close follows.
  status abort() const noexcept;

  // Hands over what was accepted and not completely written, in order; returns how many messages
  // that is. `each` (may be empty) must not use this connection.
  std::size_t unsent(const std::function<void(bytes_view)>& each) const;
  // The same of everything not released; `written` says which were.
  std::size_t unreleased(const std::function<void(bytes_view, bool written)>& each) const;

  [[nodiscard]] connection_state state() const noexcept;
  [[nodiscard]] bool is_open() const noexcept { return state() == connection_state::open; }
  // Where it was dialled to, or who was accepted, as "ipv6://[::1]:4711".
  [[nodiscard]] std::string peer() const;
  // Whether a process of this host and this user is at the other end: the kernel says so of Unix
  // sockets. False of TCP, and while it is not connected.
  [[nodiscard]] bool same_user() const noexcept;
  // The listener that accepted it, as listen() has returned it; empty for one that was dialled.
  [[nodiscard]] std::string listener() const;
  // The most a message may carry: the smaller of both ends' limits once it is open.
  [[nodiscard]] std::uint64_t message_limit() const noexcept;
  // Bytes queued and not released, framing included.
  [[nodiscard]] std::size_t queued() const noexcept;
  // What the user likes to find again; null at first.
  [[nodiscard]] void* context() const noexcept;
  void set_context(void* context) const noexcept;

  // Never used for another connection of the process's sets on this thread; 0 for none.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  friend bool operator==(const connection&, const connection&) = default;

 private:
  friend class detail::connection_core;
  friend class connection_slot;
  connection(detail::connection_anchor* anchor, std::uint64_t id) noexcept
      : anchor_(anchor), id_(id) {}

  detail::connection_anchor* anchor_ = nullptr;
  std::uint64_t id_ = 0;
};

// Writable bytes of one message in a connection's queue. Destroying it without a commit gives them
// up; a later claim or send of the same connection takes them away.
class ATBUS_API connection_slot {
 public:
  connection_slot(connection_slot&& other) noexcept
      : of_(std::exchange(other.of_, {})),
        claim_(other.claim_),
        bytes_(std::exchange(other.bytes_, {})),
        why_(other.why_),
        valid_(std::exchange(other.valid_, false)) {}
  connection_slot& operator=(connection_slot&&) = delete;
  ~connection_slot() {
    if (valid_)
      abort();
  }

  explicit operator bool() const noexcept { return valid_; }
  // Why there is none: an error of send.
  [[nodiscard]] status why() const noexcept { return why_; }
  // Void once the connection has ended, as poll, wait and flush may find out: commit says closed then,
  // and this memory may be anybody's.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  connection_slot* operator->() noexcept { return this; }

  // Queues the first `length` bytes, by default all. Errors: closed (the connection is, or one of the
  // ends has begun to close it, or another claim came between), invalid_argument (more than was
  // claimed).
  status commit() noexcept { return commit(bytes_.size()); }
  status commit(std::size_t length) noexcept;
  void abort() noexcept;

 private:
  friend class connection;
  connection_slot() = default;

  connection of_;
  std::uint64_t claim_ = 0;
  mutable_bytes bytes_;
  status why_;
  bool valid_ = false;
};

class ATBUS_API connection_set {
 public:
  // Errors: system_error (no descriptors).
  static result<connection_set> open(connection_handlers handlers = {},
                                     const connection_set_options& options = {});

  connection_set(connection_set&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  connection_set& operator=(connection_set&& other) noexcept {
    if (this != &other) {
      close();
      core_ = std::exchange(other.core_, nullptr);
    }
    return *this;
  }
  ~connection_set() { close(); }

  // Other handlers from the next poll on.
  void set_handlers(connection_handlers handlers);

  // Listens at ipv4://, ipv6:// or unix://, any number of times. Returns the address with the port
  // that was bound. Errors: those of receiver::open for such addresses; closed, used_after_fork.
  result<std::string> listen(std::string_view address, const listen_options& options = {});
  // Takes what listen has returned. Accepted connections stay. Errors: not_found, closed,
  // used_after_fork.
  error close_listener(std::string_view address);

  // Begins a connection. What goes wrong later is on_close's. Errors: invalid_address,
  // invalid_argument, not_supported, closed, used_after_fork.
  result<connection> connect(std::string_view address, const connect_options& options = {});

  // Reads, and tells the handlers what is to be told. Returns how many messages that were; the
  // limits are for messages. Never blocks; from a handler it does nothing and returns 0.
  std::size_t poll(const poll_limits& limits = {});
  // From a handler: the poll that called it tells of no more messages. No effect elsewhere.
  void end_poll() noexcept;
  // Sleeps until poll has something to do (ok), or `timeout` has passed (timed_out; negative: for
  // ever). Errors: closed, used_after_fork, invalid_argument (from a handler).
  status wait(std::chrono::nanoseconds timeout);
  // Writes what is queued on all connections, as far as their kernels take it.
  void flush() noexcept;

  // For event loops, as in receiver. atbus/loop.hpp does this for libuv (loop_connections).
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  // Sums over all connections. `quarantined` counts those that broke the protocol.
  [[nodiscard]] channel_stats stats() const;
  // Connections that exist now, in whatever state.
  [[nodiscard]] std::size_t size() const noexcept;

  // Aborts all of them without telling anybody. Idempotent; allowed in a handler.
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

 private:
  explicit connection_set(detail::connection_core* core) noexcept : core_(core) {}

  detail::connection_core* core_ = nullptr;
};

}  // namespace atbus
