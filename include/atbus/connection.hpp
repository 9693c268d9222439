/// @file
/// Two-way connections through sockets, many of them on one thread. Nodes are built on this.
///
/// ```cpp
/// auto set = atbus::connection_set::open({.on_message = [](atbus::connection from,
///                                                          atbus::bytes_view message) {
///   from.send(message);  // back to where it came from
/// }});
/// auto where = set->listen("ipv6://[::1]:0");            // the address with the port
/// auto out = set->connect("unix:///run/zone.sock");      // never blocks
/// out->send(atbus::as_bytes("leaves once it is connected"));
/// for (;;) {
///   set->wait(std::chrono::seconds{1});
///   set->poll();
/// }
/// ```
///
/// Ownership: a set owns its listeners and connections. A `connection` is a small value that refers
/// to a connection of the set. Once that connection or the set is gone, each function returns
/// `closed`.
///
/// Threads: one thread uses a set and everything that refers to it.
///
/// Handlers: run only in poll, and never inside one another or inside another function. A handler
/// may call any function: close, abort or open connections and listeners, close or destroy the set,
/// fork. It may throw: poll passes the exception on, and the event counts as handled.
///
/// Errors: a peer that misbehaves affects only its own connection.
///
/// Fork: in a forked child a set is unusable (used_after_fork); the parent's set is not affected.
///
/// doc/design/connection.md has the states and what each event does in each.
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

/// What a connection does at the moment.
enum class connection_state : std::uint8_t {
  resolving,   ///< It asks for the addresses of a dns:// name.
  connecting,  ///< The other end's kernel has not answered.
  waiting,     ///< It waits for the next attempt (connect_options::reconnect_min).
  opening,     ///< It is connected, and waits for the other end's hello.
  open,        ///< Messages go both ways.
  closing,     ///< Accepted messages are still sent, and arriving ones still delivered.
  closed,      ///< It has ended: on_close is called next, or was.
};
/// The name of a state as written above.
[[nodiscard]] ATBUS_API std::string_view name(connection_state state) noexcept;

/// When a message leaves a connection's queue.
enum class release_policy : std::uint8_t {
  on_write,  ///< A message leaves the queue when the kernel has taken all of it.
  by_user,   ///< A message stays until release(): a new connection or resend() sends it again.
};

/// Options of a connection, dialled or accepted.
struct connection_options {
  /// How the connection uses its socket.
  socket_options socket = {};
  /// Largest message in payload bytes, both ways; for sending, the other end's limit applies as
  /// well. 0: ATBUS_MACRO_MSG_LIMIT.
  std::uint64_t message_limit = 0;
  /// Where messages wait, as in sender_options. The whole set shares the memory that growing
  /// buffers keep for later use.
  send_buffer_kind buffer = send_buffer_kind::growing;
  /// Maximum size of a growing buffer in bytes, as in sender_options.
  std::uint64_t send_buffer_size = 0;
  /// Number of blocks of a fixed buffer, as in sender_options.
  std::uint64_t send_buffer_number = 0;
  /// When a message leaves the queue.
  release_policy release = release_policy::on_write;
  /// How long the opening may take after both kernels are connected; with `user_confirms`,
  /// including the time until confirm(). 0: no limit.
  std::chrono::nanoseconds confirm_timeout = build_settings::connection_confirm_timeout;
  /// Whether the program accepts the other end itself, with connection::confirm(). The connection
  /// counts as unconfirmed until then.
  bool user_confirms = false;
  /// With `user_confirms`: the longest message in payload bytes that is accepted before confirm(),
  /// so that an unauthenticated peer takes little memory. Messages directly behind the one whose
  /// handler confirms may be longer. 0: the message limit.
  std::uint64_t unconfirmed_message_limit = 0;
  /// When the other end closes: how long messages accepted here may take to leave.
  std::chrono::nanoseconds linger = std::chrono::seconds{1};
};

/// Options of connection_set::listen.
struct listen_options {
  /// Options of each connection that is accepted.
  connection_options connection = {};
  /// Connections that the kernel queues until they are accepted.
  int backlog = build_settings::connection_backlog;
  /// Maximum number of open connections, as in receiver_options.
  std::uint32_t connections = 4096;
  /// Maximum number of unconfirmed connections, as in receiver_options. A connection is unconfirmed
  /// until the other end has said hello and, with `user_confirms`, confirm() was called.
  std::uint32_t unconfirmed = 1024;
  /// What else unconfirmed connections may cost.
  stranger_limits strangers = {};
};

/// Options of connection_set::connect.
struct connect_options {
  /// Options of the connection itself.
  connection_options connection = {};
  /// Time limit of one attempt. All addresses of a name share it, so that each is tried. 0: the
  /// kernel's own limit for each.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// The first backoff, as in sender_options; 0: never dials again. Each new connection calls
  /// on_open again. Messages that were not released are sent again, whole.
  std::chrono::nanoseconds reconnect_min{0};
  /// The longest backoff; see `reconnect_min`.
  std::chrono::nanoseconds reconnect_max = std::chrono::seconds{30};
};

/// The callbacks of a set. Empty handlers are not called.
struct connection_handlers {
  /// Messages can be received from now on. The first event of an accepted connection; comes again
  /// after each reconnect.
  std::function<void(connection)> on_open;
  /// A message, in place; the bytes are valid until the handler returns.
  std::function<void(connection, bytes_view)> on_message;
  /// Called once after a would_block, when the queue has drained to half.
  std::function<void(connection)> on_writable;
  /// The last event of a connection; comes once, also after close() and abort(). `why` is no error
  /// if this end closed the connection, all accepted messages were written, and the other end has
  /// closed its half too. `connection::unsent` and `unreleased` work until the handler returns.
  std::function<void(connection, const error& why)> on_close;
  /// Problems that belong to no reported connection: a peer that speaks another protocol, no
  /// descriptors.
  std::function<void(const error&)> on_problem;
};

/// Options of connection_set::open.
struct connection_set_options {
  /// The longest time that `wait` spins before it sleeps, as in receiver_options.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  /// Maximum bytes of one read; all connections share the memory.
  std::size_t read_size = 512 * 1024;
  /// Set by nodes. Null for others: messages go through the sockets.
  detail::lane_exchange* lanes = nullptr;
  /// Whether poll flushes, at its end, the messages that handlers have sent. Off: the program calls
  /// flush itself, for example after it has sent more.
  bool flush_in_poll = true;
  /// How long poll leaves the sockets alone after it has written: what is sent meanwhile gathers, and leaves in one
  /// write with the first poll after that time. `flush`, `wait` and a prepared sleep write at once. As
  /// node_options::write_delay. 0 (the default, each poll writes) to write_delay_max.
  std::chrono::nanoseconds write_delay{0};
  static constexpr std::chrono::milliseconds write_delay_max{10};  ///< the longest write_delay
};

/// Refers to a connection of a set. A plain value; a default-made one refers to none.
class ATBUS_API connection {
 public:
  connection() = default;

  /// Queues a copy. It leaves with the next flush: at the end of poll, before sleep, when 256 KiB
  /// are queued, or at flush(). Errors: would_block (the queue is full; on_writable is called when
  /// there is room), message_too_large, closed (also while closing), used_after_fork,
  /// out_of_memory.
  status send(bytes_view message) const noexcept;
  /// Queues the pieces, one behind the other, as one message.
  status send(std::span<const bytes_view> pieces) const noexcept;
  /// Queues the pieces, one behind the other, as one message.
  status send(std::initializer_list<bytes_view> pieces) const noexcept {
    return send(std::span<const bytes_view>{pieces.begin(), pieces.size()});
  }
  /// `length` bytes, aligned to 8 bytes, in the queue itself. If send would fail, the slot is false
  /// and why() returns the error.
  [[nodiscard]] connection_slot claim(std::size_t length) const noexcept;
  /// Writes as much as the kernel takes now. would_block: something is left.
  status flush() const noexcept;

  /// Pauses reading. While paused, the other end's queue fills, and this end does not notice that
  /// the other end has ended, even if writing fails: what it sent before must be read first.
  /// Closing ends a pause.
  status pause() const noexcept;
  /// Reads again after pause. Errors: closed, used_after_fork.
  status resume() const noexcept;

  /// Marks the program's own handshake as done (connection_options::user_confirms).
  status confirm() const noexcept;

  /// With release_policy::by_user: removes the oldest `messages` messages from the queue, because
  /// the other end has them. Returns the number removed. A removed message that was not yet written
  /// is never written.
  std::size_t release(std::size_t messages) const noexcept;
  /// Writes all unreleased messages again, on the same connection.
  status resend() const noexcept;

  /// Graceful shutdown: sends all accepted messages, then a goodbye. Messages that arrive meanwhile
  /// are delivered. on_close is called when the other end's goodbye has come or `linger` is over;
  /// then it names how many were not written. Over TCP, written ones that the other end had not read
  /// may be lost too, and are in no count.
  /// When `linger` is over, messages that have come by then are handed out first, with a `linger` of
  /// 0 too: those already read and those of one more read (connection_set_options::read_size). How
  /// long that takes is up to the program's handlers and poll_limits. abort() does not wait for it.
  /// Never blocks. A second call can only shorten `linger`.
  status close(std::chrono::nanoseconds linger = std::chrono::seconds{1}) const noexcept;
  /// Ends the connection now. on_close follows.
  status abort() const noexcept;

  /// Passes each message that was accepted and not completely written to `each`, in order; returns
  /// their number. `each` (may be empty) must not use this connection.
  std::size_t unsent(const std::function<void(bytes_view)>& each) const;
  /// Passes each unreleased message to `each`, as unsent() does; `written` tells whether it was
  /// written.
  std::size_t unreleased(const std::function<void(bytes_view, bool written)>& each) const;

  /// What the connection does at the moment; closed once it is gone.
  [[nodiscard]] connection_state state() const noexcept;
  /// Whether messages go both ways now.
  [[nodiscard]] bool is_open() const noexcept { return state() == connection_state::open; }
  /// The address that was dialled or, for an accepted connection, the peer's address, such as
  /// "ipv6://[::1]:4711".
  [[nodiscard]] std::string peer() const;
  /// Whether the other end is a process of this host and this user, as the kernel reports for Unix
  /// sockets. False for TCP, and while not connected.
  [[nodiscard]] bool same_user() const noexcept;
  /// The listener that accepted it, as returned by listen(); empty if it was dialled.
  [[nodiscard]] std::string listener() const;
  /// Largest message in payload bytes: the smaller of both ends' limits once it is open.
  [[nodiscard]] std::uint64_t message_limit() const noexcept;
  /// Bytes queued and not released, framing included.
  [[nodiscard]] std::size_t queued() const noexcept;
  /// A pointer for the user's own data, which the set never uses; null at first.
  [[nodiscard]] void* context() const noexcept;
  /// Sets the pointer that context() returns.
  void set_context(void* context) const noexcept;

  /// Unique among the connections of all sets of the process; 0 for none.
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

/// Writable bytes of one message in a connection's queue. Destroying the slot without a commit
/// discards them, and so does a later claim or send of the same connection.
class ATBUS_API connection_slot {
 public:
  /// Takes the claim over; `other` is empty afterwards.
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

  /// Whether there are bytes to fill and commit.
  explicit operator bool() const noexcept { return valid_; }
  /// Why the slot is empty: an error of send.
  [[nodiscard]] status why() const noexcept { return why_; }
  /// The bytes to fill. Invalid once poll, wait or flush has found that the connection has ended:
  /// commit then returns closed, and the memory may be in use elsewhere.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  /// The slot itself, so that a slot reads like a result: slot->bytes().
  connection_slot* operator->() noexcept { return this; }

  /// Queues the first `length` bytes, by default all. Errors: closed (the connection has ended, one
  /// of the ends has begun to close it, or another claim came between), invalid_argument (more than
  /// was claimed).
  status commit() noexcept { return commit(bytes_.size()); }
  /// Queues the first `length` bytes. Errors: as commit().
  status commit(std::size_t length) noexcept;
  /// Discards the bytes.
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

/// Listeners and connections, all used by one thread. See atbus/connection.hpp.
class ATBUS_API connection_set {
 public:
  /// Makes a set without connections. Errors: invalid_argument (write_delay), system_error (no descriptors).
  static result<connection_set> open(connection_handlers handlers = {},
                                     const connection_set_options& options = {});

  /// Takes the set over; `other` is closed afterwards.
  connection_set(connection_set&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// Closes this set and takes the other over.
  connection_set& operator=(connection_set&& other) noexcept {
    if (this != &other) {
      close();
      core_ = std::exchange(other.core_, nullptr);
    }
    return *this;
  }
  ~connection_set() { close(); }

  /// Replaces the handlers from the next poll on.
  void set_handlers(connection_handlers handlers);

  /// Listens at ipv4://, ipv6:// or unix://; may be called any number of times. Returns the address
  /// with the port that was bound. Errors: those of receiver::open for such addresses; closed,
  /// used_after_fork.
  result<std::string> listen(std::string_view address, const listen_options& options = {});
  /// Ends listening at an address that listen returned. Accepted connections stay. Errors:
  /// not_found, closed, used_after_fork.
  error close_listener(std::string_view address);

  /// Begins a connection; never blocks. Later failures are reported to on_close. Errors:
  /// invalid_address, invalid_argument, not_supported, closed, used_after_fork.
  result<connection> connect(std::string_view address, const connect_options& options = {});

  /// Reads, and calls the handlers. Returns the number of messages delivered; the limits apply to
  /// messages. Never blocks. Called from a handler, it does nothing and returns 0.
  std::size_t poll(const poll_limits& limits = {});
  /// From a handler: the poll that called it delivers no more messages. No effect elsewhere.
  void end_poll() noexcept;
  /// Sleeps until poll has something to do (ok) or `timeout` has passed (timed_out; negative: no
  /// limit). Errors: closed, used_after_fork, invalid_argument (from a handler).
  status wait(std::chrono::nanoseconds timeout);
  /// Writes the queues of all connections, as far as the kernel takes them.
  void flush() noexcept;
  /// As poll does at its end: not while it leaves the sockets alone for `write_delay`.
  void flush_due() noexcept;

  /// A descriptor for event loops, as receiver::descriptor. loop_connections does this for libuv.
  [[nodiscard]] int descriptor() const noexcept;
  /// Prepares to sleep, as receiver::prepare_sleep.
  [[nodiscard]] bool prepare_sleep();
  /// Ends the sleep, as receiver::finish_sleep.
  void finish_sleep();
  /// How long a prepared set may sleep, as receiver::longest_sleep.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  /// Sums over all connections. `quarantined` counts those that broke the protocol.
  [[nodiscard]] channel_stats stats() const;
  /// Number of connections that exist now, in any state.
  [[nodiscard]] std::size_t size() const noexcept;

  /// Aborts all connections without calling handlers. Idempotent; allowed in a handler.
  void close() noexcept;
  /// False after close(), and once the set was moved away.
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

 private:
  explicit connection_set(detail::connection_core* core) noexcept : core_(core) {}

  detail::connection_core* core_ = nullptr;
};

}  // namespace atbus
