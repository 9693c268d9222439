// The sending end of a channel: `shm://name` between processes of one host, `mem://name` between
// threads of one, `ipv4://`, `ipv6://`, `dns://` and `unix://` through sockets.
//
//   auto out = atbus::sender::open("shm://12345679");  // a lane of its own
//   if (!out) return out.error().print(), 1;
//   if (auto s = out->send(bytes); !s) ...             // one copy; published when it returns ok
//   if (auto slot = out->claim(256)) {                 // no copy
//     fill(slot.bytes());
//     slot.commit();
//   }
//   {
//     auto batch = out->batch();
//     for (auto& m : many) batch.send(m);
//   }                                                  // published together
//
// Ownership: each sender has a lane of its own, proven by a kernel lock that ends with its process.
//   What it published outlives it. A receiver that is away does not matter: messages wait in the
//   lane.
//   Through a socket it is a connection of its own: send and commit hand the kernel what it takes,
//   the rest waits in a queue of the sender's and ends with it; see flush, take_back, close.
// Trust: whoever listens at the address is the receiver. `unix://@name` has no file and so no rights:
//   any user of the host may listen there first. `unix:///path` is as safe as its directory.
// Threads: one thread at a time uses a sender; any number of senders work side by side without
//   touching each other.
// Errors of send and claim: would_block (the lane is full: wait_writable), message_too_large,
//   retired (the receiver removed the segment: open anew), quarantined (somebody wrote into the
//   lane's control words), peer_closed (the connection has ended), closed, used_after_fork. A
//   refused message is not accepted; nothing else happens to it, except that a would_block is
//   counted. Nothing here throws but what a handler throws.
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

// Writable bytes of one message in the lane itself. Until `commit` nobody else can see them;
// destroying the slot without a commit gives them up. A sender has at most one slot at a time: a
// new claim replaces an open one.
class message_slot {
 public:
  message_slot(message_slot&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)),
        bytes_(other.bytes_),
        why_(other.why_),
        publish_(other.publish_) {}
  message_slot& operator=(message_slot&&) = delete;
  ~message_slot() = default;

  explicit operator bool() const noexcept { return backend_ != nullptr; }
  // Why there is none: an error of send, or ok once it was committed.
  [[nodiscard]] status why() const noexcept { return why_; }

  // As many as were claimed, 8-byte aligned, not initialized. They are there until the sender's next
  // claim, close or end. But `commit` sends nothing once the channel has ended, or a sender that dials
  // again has found its `unix://` receiver gone, which any other verb may find out.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  message_slot* operator->() noexcept { return this; }

  // Sends the first `length` bytes, by default all that were claimed. More than that, or a second
  // commit, does nothing.
  void commit() noexcept { commit(bytes_.size()); }
  void commit(std::size_t length) noexcept {
    if (backend_ == nullptr || length > bytes_.size())
      return;
    backend_->append(bytes_.size(), length);
    if (publish_)
      backend_->publish();
    backend_ = nullptr;
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

  detail::sender_backend* backend_ = nullptr;
  mutable_bytes bytes_;
  status why_;
  bool publish_ = true;
};

// Messages that become visible together when the batch is flushed or destroyed; they count as
// accepted then. When the lane is full, what is in the batch is flushed and the send refused with
// would_block. Use only the batch while it lives.
class message_batch {
 public:
  message_batch(message_batch&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)) {}
  message_batch& operator=(message_batch&&) = delete;
  ~message_batch() { flush(); }

  status send(bytes_view message) noexcept {
    auto slot = claim(message.size());
    if (!slot) [[unlikely]]
      return slot.why();
    detail::copy_payload(slot.bytes().data(), message.data(), message.size());
    slot.commit();
    return {};
  }
  [[nodiscard]] message_slot claim(std::size_t length) noexcept {
    message_slot slot{backend_, length, false};
    if (!slot && slot.why() == errc::would_block)
      flush();
    return slot;
  }
  void flush() noexcept {
    if (backend_ != nullptr)
      backend_->publish();
  }

 private:
  friend class sender;
  explicit message_batch(detail::sender_backend* backend) noexcept : backend_(backend) {}

  detail::sender_backend* backend_;
};

class ATBUS_API sender {
 public:
  // Takes a lane in the segment that a receiver made, or connects to where one listens.
  // Errors: not_found (no receiver has made it yet), no_free_lane (all are held by living senders),
  // no_space (the lane's memory; text: wanted and free), invalid_address, invalid_name,
  // not_supported, not_a_segment, version_mismatch, geometry_mismatch, wrong_owner, wrong_mode,
  // would_block (what a dead sender left fills the lane), retired (its removal is not finished:
  // start the receiver), denied, timed_out and protocol_error (of a socket: the system refuses; nobody
  // answers, or not as a receiver), invalid_argument, out_of_memory, system_error.
  static result<sender> open(std::string_view address, const sender_options& options = {});

  sender(sender&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  sender& operator=(sender&& other) noexcept {
    if (this != &other) {
      close();
      backend_ = std::exchange(other.backend_, nullptr);
    }
    return *this;
  }
  ~sender() { close(); }

  // Sends a copy of `message`; visible to the receiver when this returns ok.
  status send(bytes_view message) noexcept {
    auto slot = claim(message.size());
    if (!slot) [[unlikely]]
      return slot.why();
    detail::copy_payload(slot.bytes().data(), message.data(), message.size());
    slot.commit();
    return {};
  }

  // Sends the pieces, one behind the other, as one message.
  status send(std::span<const bytes_view> pieces) noexcept {
    std::size_t length = 0;
    for (const bytes_view piece : pieces) {
      // Saturate: an absurd total must be refused, not wrap around.
      length =
          length + piece.size() < length ? static_cast<std::size_t>(-1) : length + piece.size();
    }
    auto slot = claim(length);
    if (!slot) [[unlikely]]
      return slot.why();
    std::byte* at = slot.bytes().data();
    for (const bytes_view piece : pieces) {
      if (piece.empty())
        continue;
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    }
    slot.commit();
    return {};
  }
  status send(std::initializer_list<bytes_view> pieces) noexcept {
    return send(std::span<const bytes_view>{pieces.begin(), pieces.size()});
  }

  // `length` writable bytes in the lane. The slot is false, and says why, if there is no room or
  // the length is too large. What was not committed when the next claim begins was never sent.
  [[nodiscard]] message_slot claim(std::size_t length) noexcept { return {backend_, length, true}; }

  [[nodiscard]] message_batch batch() noexcept { return message_batch{backend_}; }

  // Of streams: hands the kernel what it has not taken yet, and waits at most `timeout` until it has
  // taken all (negative: for ever). ok also when the connection has ended and nothing was left.
  // Errors: would_block (something is left), and those of send. Of lanes: ok at once, what is sent is
  // where the receiver reads it.
  status flush(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{0});

  // Sleeps until a message of `length` bytes fits (ok) or `timeout` has passed (timed_out;
  // negative: for ever). 0 stands for the length that was refused last. Then calls the
  // `on_writable` handler, if there is one. Also waits while no receiver lives; its successor makes
  // room. Errors: message_too_large, retired, quarantined, closed, used_after_fork.
  status wait_writable(std::chrono::nanoseconds timeout, std::size_t length = 0);

  // Called when there is room again after a would_block: by wait_writable, and on an event loop
  // (atbus/loop.hpp). May send, close or destroy this sender.
  void on_writable(std::function<void()> handler);

  // For event loops, as in receiver: prepare_sleep true = nothing to do, the descriptor will become
  // readable when there is room for what was refused last.
  [[nodiscard]] int descriptor();
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  // As in receiver. Not negative also while no receiver lives and nothing tells of a new one.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  // Calls the on_writable handler if a send was refused and another would not be: there is room, or
  // the channel has ended and the next send says why. True: it did. Never blocks. Of streams: first
  // hands the kernel what it takes, and dials if that is due.
  bool poll_writable();

  // Takes back what was published and not yet handled, when no receiver lives: to send it
  // elsewhere, or to report it. `each` gets every such message of this sender in order, with
  // errc::not_delivered, or errc::outcome_unknown for one that a receiver had begun to handle when
  // it died. Returns their number. Errors: receiver_alive, quarantined, closed, used_after_fork.
  // `each` must not use this sender. Never blocks, except for a `unix://` sender that has messages in a
  // lane whose receiver has just ended the connection: it waits until that process has lost its lock,
  // usually some milliseconds, at most 1 s.
  result<std::size_t> take_back(const std::function<void(bytes_view, errc)>& each);

  // Whether a receiver holds the segment, or the other end of the connection, right now (asks the
  // kernel).
  [[nodiscard]] bool receiver_alive() const;
  // Of lanes only (streams know nothing of this): which of the segment's receivers holds it right
  // now, counted from 1; 0: nobody does. A new receiver has its predecessor's number for a moment.
  [[nodiscard]] std::uint64_t receiver_generation() const;
  // The same: whether a send would go on, without one: ok, retired, quarantined, closed,
  // used_after_fork.
  [[nodiscard]] status look() noexcept;
  // The same: whether all that was sent has been handled; what was not, in order, without taking it
  // back: a living receiver may be at it. `each` must not use this sender.
  [[nodiscard]] bool settled() const;
  std::size_t unhandled(const std::function<void(bytes_view)>& each) const;
  [[nodiscard]] channel_stats stats() const;  // of its lane
  // The most a message may carry, in payload bytes.
  [[nodiscard]] std::uint64_t message_limit() const noexcept;
  [[nodiscard]] std::uint32_t lane() const noexcept;  // its number, as received_message::lane

  // Gives the lane up; what was published stays. A connection first writes what was accepted, for
  // at most `sender_options::linger`. Idempotent.
  void close() noexcept;
  // The same with a wait of at most `linger` (0: none), and `unsent` gets each message that was
  // accepted and not completely written, in order. Returns their number; 0 of lanes, where what was
  // sent is where the receiver reads it. A `unix://` sender that has left its lane, because the receiver
  // is gone, reports what was in it; for that it may wait as take_back does, also with a `linger` of 0.
  // `unsent` must not use this sender.
  std::size_t close(std::chrono::nanoseconds linger, const std::function<void(bytes_view)>& unsent);
  [[nodiscard]] bool is_open() const noexcept { return backend_ != nullptr; }

 private:
  friend class detail::sender_on_loop;
  friend struct detail::lane_handles;
  friend class detail::lane_link;
  explicit sender(detail::sender_backend* backend) noexcept : backend_(backend) {}

  detail::sender_backend* backend_ = nullptr;
};

}  // namespace atbus
