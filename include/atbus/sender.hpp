/// @class atbus::sender
/// The sending end of a channel: `shm://name` between processes of one host, `mem://name` between
/// threads of one process, `ipv4://`, `ipv6://`, `dns://` and `unix://` through sockets.
///
/// ```cpp
/// auto out = atbus::sender::open("shm://12345679");  // a lane of its own
/// if (!out) return out.error().print(), 1;
/// if (auto s = out->send(bytes); !s) ...             // one copy; published when it returns ok
/// if (auto slot = out->claim(256)) {                 // no copy
///   fill(slot.bytes());
///   slot.commit();
/// }
/// {
///   auto batch = out->batch();
///   for (auto& m : many) batch.send(m);
/// }                                                  // published together
/// ```
///
/// Ownership: each sender has a lane of its own, held by a kernel lock that ends with the process.
/// Published messages outlive the sender; while no receiver is there, they wait in the lane.
///
/// Through a socket, a sender has a connection of its own. send and commit write as much as the
/// kernel takes. The rest waits in the sender's queue, and is lost when the sender ends (see flush,
/// take_back, close).
///
/// Trust: the process that listens at the address is the receiver. `unix://@name` has no file and
/// no permissions: any user of the host may listen there first. `unix:///path` is as safe as its
/// directory.
///
/// Threads: one thread at a time uses a sender. Any number of senders work side by side without
/// touching each other.
///
/// Errors of send and claim: would_block (the lane or queue is full: wait_writable),
/// message_too_large, closed, used_after_fork. Lanes also: retired (the receiver removed the
/// segment: open anew), quarantined (something wrote into the lane's control words). Sockets also:
/// out_of_memory (none for the queue), and why the connection has ended: peer_closed, timed_out,
/// protocol_error, version_mismatch, system_error; message_too_large also if the receiver takes
/// less than a message that is queued. If `open` did not wait for the connection, that includes why
/// it was not made: not_found and denied too. A refused message is not accepted. It discards an
/// open slot, and a would_block is counted; it has no other effect.
///
/// Exceptions: those that a handler throws, and std::bad_alloc where a text or a handler is copied.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/copy_payload.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/sender_backend.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
class sender_on_loop;
struct lane_handles;
class lane_link;
}  // namespace detail

/// Writable bytes of one message in the lane itself. They are invisible to others until `commit`;
/// destroying the slot without a commit discards them. A sender has at most one slot at a time: a
/// new claim or send discards an open one, also if it is refused. A slot must not outlive its
/// sender, nor the sender's close: `commit` would use freed memory.
class message_slot {
 public:
  /// Takes the claim over; `other` is empty afterwards.
  message_slot(message_slot&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)),
        bytes_(other.bytes_),
        id_(other.id_),
        why_(other.why_),
        publish_(other.publish_) {}
  message_slot& operator=(message_slot&&) = delete;
  ~message_slot() = default;

  /// Whether there are bytes to fill and commit.
  explicit operator bool() const noexcept { return backend_ != nullptr; }
  /// Why the slot is empty: an error of send, or ok after a commit.
  [[nodiscard]] status why() const noexcept { return why_; }

  /// As many bytes as were claimed, aligned to 8 bytes, not initialized. Valid until the sender's
  /// next claim, send, take_back, close or end. `commit` sends nothing once the channel has ended.
  /// With `reconnect_min` above 0, it also sends nothing if another call of this sender has found
  /// meanwhile that its `unix://` receiver is gone.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  /// The slot itself, so that a slot reads like a result: slot->bytes().
  message_slot* operator->() noexcept { return this; }
  /// Whether a commit would send them: nothing has discarded them.
  [[nodiscard]] bool is_open() const noexcept {
    return backend_ != nullptr && backend_->is_open(id_, bytes_.size());
  }

  /// Sends the first `length` bytes, by default all that were claimed. Does nothing if `length` is
  /// larger than the claim, on a second commit, once another message was claimed or sent, or was to
  /// be, and after a take_back.
  void commit() noexcept { commit(bytes_.size()); }
  /// Sends the first `length` bytes.
  void commit(std::size_t length) noexcept {
    if (length > bytes_.size() || !is_open()) [[unlikely]]
      return;
    commit_at_once(length);
  }

 private:
  friend class sender;
  friend class message_batch;
  message_slot(detail::sender_backend* backend, std::size_t length, bool publish) noexcept
      : publish_(publish) {
    if (backend == nullptr) [[unlikely]] {
      why_ = errc::closed;
      return;
    }
    std::byte* const at = backend->claim(length, why_);
    if (at == nullptr) [[unlikely]]
      return;
    backend_ = backend;
    bytes_ = {at, length};
  }

  // For a slot that the user gets. Those inside `send` are committed at once.
  void identify() noexcept {
    if (backend_ != nullptr) [[likely]]
      id_ = backend_->new_slot();
  }

  // Nothing else was claimed or sent meanwhile.
  void commit_at_once(std::size_t length) noexcept {
    backend_->append(bytes_.size(), length);
    if (publish_)
      backend_->publish();
    backend_ = nullptr;
  }

  detail::sender_backend* backend_ = nullptr;
  mutable_bytes bytes_;
  detail::sender_backend::slot_id id_;
  status why_;
  bool publish_ = true;
};

/// Messages that become visible together when the batch is flushed or destroyed; they count as
/// accepted then. When the lane is full, the batch is flushed and the send refused with
/// would_block. While a batch lives, use only the batch.
class message_batch {
 public:
  /// Takes the batch over; `other` is empty afterwards.
  message_batch(message_batch&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)) {}
  message_batch& operator=(message_batch&&) = delete;
  ~message_batch() { flush(); }

  /// Adds a copy of the message. Errors: as sender::send.
  status send(bytes_view message) noexcept {
    message_slot slot{backend_, message.size(), false};
    if (!slot) [[unlikely]]
      return refused(slot);
    detail::copy_payload(slot.bytes().data(), message.data(), message.size());
    slot.commit_at_once(slot.bytes().size());
    return {};
  }
  /// A slot as of sender::claim; its commit adds the message to the batch.
  [[nodiscard]] message_slot claim(std::size_t length) noexcept {
    message_slot slot{backend_, length, false};
    if (!slot)
      (void)refused(slot);
    slot.identify();
    return slot;
  }
  /// Publishes the messages added so far.
  void flush() noexcept {
    if (backend_ != nullptr)
      backend_->publish();
  }

 private:
  friend class sender;
  explicit message_batch(detail::sender_backend* backend) noexcept : backend_(backend) {}

  // Room comes when what the batch holds is read.
  status refused(const message_slot& slot) noexcept {
    if (slot.why() == errc::would_block)
      flush();
    return slot.why();
  }

  detail::sender_backend* backend_;
};

class ATBUS_API sender {
 public:
  /// Takes a lane in the segment that a receiver made, or connects to a listening receiver. Errors:
  /// not_found (no receiver has made it yet, or none listens there), no_free_lane (all are held by
  /// living senders), no_space (the lane's memory; text: wanted and free), invalid_address,
  /// invalid_name, not_supported, not_a_segment, version_mismatch, geometry_mismatch, wrong_owner,
  /// wrong_mode, would_block (what a dead sender left fills the lane), retired (its removal is not
  /// finished: start the receiver), invalid_argument, out_of_memory, system_error. For a socket
  /// also denied (the system refuses), timed_out (no answer, or the backlog of a Unix socket stays
  /// full) and protocol_error (the answer is not that of a receiver).
  static result<sender> open(std::string_view address, const sender_options& options = {});

  /// Takes the sender over; `other` is closed afterwards.
  sender(sender&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  /// Closes this sender and takes the other over.
  sender& operator=(sender&& other) noexcept {
    if (this != &other) {
      close();
      backend_ = std::exchange(other.backend_, nullptr);
    }
    return *this;
  }
  ~sender() { close(); }

  /// Sends a copy of `message`; visible to the receiver when this returns ok.
  status send(bytes_view message) noexcept {
    message_slot slot{backend_, message.size(), true};
    if (!slot) [[unlikely]]
      return slot.why();
    detail::copy_payload(slot.bytes().data(), message.data(), message.size());
    slot.commit_at_once(slot.bytes().size());
    return {};
  }

  /// Sends the pieces, one behind the other, as one message. They are copied.
  status send(std::span<const bytes_view> pieces) noexcept {
    std::size_t length = 0;
    for (const bytes_view piece : pieces) {
      // Saturate: an absurd total must be refused, not wrap around.
      length =
          length + piece.size() < length ? static_cast<std::size_t>(-1) : length + piece.size();
    }
    message_slot slot{backend_, length, true};
    if (!slot) [[unlikely]]
      return slot.why();
    std::byte* at = slot.bytes().data();
    for (const bytes_view piece : pieces) {
      if (piece.empty())
        continue;
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    }
    slot.commit_at_once(slot.bytes().size());
    return {};
  }
  /// Sends the pieces, one behind the other, as one message.
  status send(std::initializer_list<bytes_view> pieces) noexcept {
    return send(std::span<const bytes_view>{pieces.begin(), pieces.size()});
  }

  /// `length` writable bytes in the lane. The slot is false, and why() gives the reason, if there
  /// is no room or `length` is too large. A new claim or send discards an uncommitted one, also if
  /// it is refused.
  [[nodiscard]] message_slot claim(std::size_t length) noexcept {
    message_slot slot{backend_, length, true};
    slot.identify();
    return slot;
  }

  /// Starts a batch; it must not outlive the sender.
  [[nodiscard]] message_batch batch() noexcept { return message_batch{backend_}; }

  /// Streams: writes the queue to the kernel, and waits at most `timeout` (negative: no limit)
  /// until the kernel has taken all of it. Also ok when the connection has ended and nothing was
  /// left. Errors: would_block (something is left), and those of send. Lanes: ok at once, because
  /// messages are already where the receiver reads them. The exception is a `unix://` sender whose
  /// receiver sleeps while the kernel has no memory to wake it: it is woken by the next send, or by
  /// flush, which returns would_block until then.
  status flush(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{0});

  /// Sleeps until a message of `length` bytes fits (ok) or `timeout` has passed (timed_out;
  /// negative: no limit); 0 stands for the length that was refused last. Then calls the
  /// `on_writable` handler, if there is one. Also waits while no receiver lives, because its
  /// successor makes room. Errors: message_too_large, retired, quarantined, peer_closed, closed,
  /// used_after_fork; of a stream also why its connection has ended: not_found, protocol_error,
  /// system_error and the others of send. A timed_out of the connection is what the next send
  /// returns too.
  status wait_writable(std::chrono::nanoseconds timeout, std::size_t length = 0);

  /// Called when there is room again after a would_block: by wait_writable and poll_writable, and
  /// on an event loop (atbus/loop.hpp). May send, close or destroy this sender.
  void on_writable(std::function<void()> handler);

  /// A descriptor for event loops, used as receiver::descriptor. loop_sender does this for libuv.
  [[nodiscard]] int descriptor();
  /// Before a sleep in an event loop. True: there is nothing to do, and the descriptor becomes
  /// readable when there is room for what was refused last.
  [[nodiscard]] bool prepare_sleep();
  /// Ends the sleep that prepare_sleep began. Call it whatever woke the loop.
  void finish_sleep();
  /// How long a prepared sender may sleep, as receiver::longest_sleep. Also not negative while no
  /// receiver lives and nothing would announce a new one.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  /// Calls the on_writable handler if a send was refused and the next one would not be: there is
  /// room, or the channel has ended and the next send says why. Returns true if it did. Never
  /// blocks. A stream first writes what the kernel takes, and dials again if a retry is due.
  bool poll_writable();

  /// Withdraws the messages that were published and not yet handled, while no receiver lives, so
  /// that the program can send them elsewhere or report them. `each` gets every such message of
  /// this sender in order, with errc::not_delivered, or with errc::outcome_unknown for one that a
  /// receiver had begun to handle when it died. Returns their number. Errors: receiver_alive,
  /// quarantined, closed, used_after_fork. `each` must not use this sender. If it throws, it still
  /// gets the rest; then take_back throws the first exception. Never blocks, with one exception: a
  /// `unix://` sender with messages in a lane whose receiver has just ended the connection waits
  /// until that process has lost its lock, usually some milliseconds, at most 1 s.
  result<std::size_t> take_back(const std::function<void(bytes_view, errc)>& each);

  /// Asks the kernel whether a receiver holds the segment, or the other end the connection, now.
  [[nodiscard]] bool receiver_alive() const;
  /// The number of the receiver that holds the segment now, counted from 1; 0 if none does, and
  /// always for streams. A new receiver has its predecessor's number for a moment.
  [[nodiscard]] std::uint64_t receiver_generation() const;
  /// Lanes only: what a send would return now, without sending: ok, retired, quarantined, closed,
  /// used_after_fork.
  [[nodiscard]] status look() noexcept;
  /// Lanes only: whether everything sent has been handled.
  [[nodiscard]] bool settled() const;
  /// Lanes only: passes each message that was sent and not handled to `each`, in order, without
  /// withdrawing it; a living receiver may be handling it. Returns their number; 0 for streams.
  /// `each` must not use this sender.
  std::size_t unhandled(const std::function<void(bytes_view)>& each) const;
  /// Counters of its lane or connection.
  [[nodiscard]] channel_stats stats() const;
  /// Largest message in payload bytes.
  [[nodiscard]] std::uint64_t message_limit() const noexcept;
  /// Number of its lane, as received_message::lane.
  [[nodiscard]] std::uint32_t lane() const noexcept;

  /// Gives the lane up; published messages stay. A connection first writes what was accepted, for
  /// at most `sender_options::linger`. Idempotent.
  void close() noexcept;
  /// Gives the lane up, waiting at most `linger` (0: not at all). `unsent` gets each message that
  /// was accepted and not completely written, in order. Returns their number; 0 for lanes, because
  /// messages are already where the receiver reads them. What was written, and the receiver had not
  /// read when `linger` was over, may be lost too, over TCP, and is in no count. A `unix://` sender that has left its lane
  /// because the receiver is gone passes the unhandled messages of that lane to `unsent`; for that
  /// it may wait as take_back does, even with a `linger` of 0. `unsent` must not use this sender;
  /// if it throws, it still gets the rest, and the sender is closed before the exception leaves.
  std::size_t close(std::chrono::nanoseconds linger, const std::function<void(bytes_view)>& unsent);
  /// False after close(), and once the sender was moved away.
  [[nodiscard]] bool is_open() const noexcept { return backend_ != nullptr; }

 private:
  friend class detail::sender_on_loop;
  friend struct detail::lane_handles;
  friend class detail::lane_link;
  explicit sender(detail::sender_backend* backend) noexcept : backend_(backend) {}

  detail::sender_backend* backend_ = nullptr;
};

}  // namespace atbus
