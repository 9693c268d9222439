// The interface between a node and the channels below it. A link carries whole messages, in order, in both
// directions. The node uses channels only through this interface, so the same code runs over sockets, shared
// memory and a simulated network.
//
// Ownership: a transport owns its links. A link is valid until `link_events::closed` of it returns.
// Threads: the node's one.
// Events are called only from transport::poll, never inside one another and never inside a verb.
// Inside an event any verb may be used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/direct_path.hpp"
#include "atbus/status.hpp"
#include "core/link_origin.h"
#include "core/node_instance.h"
#include "node/link/direct_receive_path.h"

namespace atbus::detail {

// Best first: a node prefers the link with the lowest value.
enum class link_kind : std::uint8_t {
  memory,
  lanes,
  shared_memory,
  unix_socket,
  tcp,
  carried,
  relayed
};
// Whether only a timeout shows that the other end is gone.
[[nodiscard]] constexpr bool is_remote(link_kind kind) noexcept {
  return kind >= link_kind::tcp;
}
// Whether everyone on the way could read and change what is not encrypted.
[[nodiscard]] constexpr bool is_network(link_kind kind) noexcept {
  return kind == link_kind::tcp || kind == link_kind::carried;
}

[[nodiscard]] constexpr link_kind kind_of(address_kind kind) noexcept {
  switch (kind) {
    case address_kind::mem:
      return link_kind::memory;
    case address_kind::shm:
      return link_kind::shared_memory;
    case address_kind::unix_socket:
      return link_kind::unix_socket;
    case address_kind::ipv4:
    case address_kind::ipv6:
    case address_kind::dns:
      break;
    case address_kind::nats:
      return link_kind::carried;
  }
  return link_kind::tcp;
}

// Trust in the other end, as known without its help.
enum class link_trust : std::uint8_t {
  same_process,
  same_user,  // a process of this host and this user: the kernel says so
  certified,  // its certificate comes from a CA that this node trusts
  unproven,
};

enum class message_purpose : std::uint8_t {
  data,     // leaves room for control messages
  control,  // may use that room
};

class link {
 public:
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  // `length` bytes for one message, 8-byte aligned. Null on an error: would_block (link_events::writable
  // follows), message_too_large, closed. A new claim discards an open one.
  [[nodiscard]] virtual std::byte* claim(std::size_t length, message_purpose purpose,
                                         status& why) noexcept = 0;
  // Sends the first `length` bytes of the claim; `length` must not exceed it. False: there is no claim. A link
  // may let go of one, for example because it ends within a flush.
  virtual bool commit(std::size_t length) noexcept = 0;
  // Whether a claim waits for its commit.
  [[nodiscard]] virtual bool has_claim() const noexcept = 0;
  // As commit, but the message may stay invisible until the next commit(), flush() or transport::flush(). For
  // many messages that may leave together.
  virtual void append(std::size_t length) noexcept { (void)commit(length); }
  // Writes queued bytes to the kernel, as many as it takes; in a lane, publishes appended messages.
  virtual void flush() noexcept = 0;

  // While half of the room for data is free: a quarter of all of it, in bytes; else 0.
  [[nodiscard]] virtual std::size_t share() const noexcept = 0;
  // Bytes that were committed and that the other end, as far as is known here, has not handled.
  [[nodiscard]] virtual std::size_t queued() const noexcept { return 0; }
  // Where data may be written without calling this link, after a successful claim and until the next event or
  // verb of the link.
  [[nodiscard]] virtual direct_place place() noexcept { return {}; }
  // Whether messages stay here until release(), because a peer that has read them may not have
  // handled them. Not so lanes, which know what was handled.
  [[nodiscard]] virtual bool keeps() const noexcept = 0;
  // The other end has handled the `messages` oldest that were committed, of either purpose.
  virtual void release(std::uint64_t messages) noexcept = 0;
  // Whether the other end has handled all that was committed.
  [[nodiscard]] virtual bool settled() const noexcept = 0;
  // Hands over, in order, what was committed and not released or handled: not_delivered if the other
  // end can't have seen it, outcome_unknown if it may have. Only within link_events::closed and
  // ::left; afterwards it is gone from the link.
  virtual void take_unreleased(const std::function<void(bytes_view, errc)>& each) = 0;
  // Calls `each` with what waits in a lane: for the process at the other end, or for its successor. At any
  // time.
  virtual void visit_unhandled(const std::function<void(bytes_view)>& each) const { (void)each; }
  // Whether those of unknown outcome stay where a successor of the other end's process would find
  // them, if that ends before it has handled them.
  [[nodiscard]] virtual bool may_be_inherited() const noexcept { return false; }

  // Bytes received, including those of incomplete messages. 0 for links that receive only whole messages.
  [[nodiscard]] virtual std::uint64_t bytes_read() const noexcept { return 0; }
  // Stops and goes on reading.
  virtual void pause() noexcept = 0;
  virtual void resume() noexcept = 0;

  // What was committed leaves, for at most `linger`; then closed() is told.
  virtual void close(std::chrono::nanoseconds linger) noexcept = 0;
  // closed() is told next.
  virtual void abort() noexcept = 0;

  // 32 bytes that only the two ends of an encrypted link know, the same at both; empty if it is not encrypted.
  // A proof that covers them can't be passed on by someone in the middle. No value: they can't be computed.
  [[nodiscard]] virtual std::optional<std::vector<std::byte>> binding() const {
    return std::vector<std::byte>{};
  }

  [[nodiscard]] virtual link_kind kind() const noexcept = 0;
  [[nodiscard]] virtual link_trust trust() const noexcept = 0;
  // Whether a new link to the same process would be trusted as this one is: its certificate may not be any more.
  [[nodiscard]] virtual bool is_trusted() const noexcept { return true; }
  // May throw std::bad_alloc.
  [[nodiscard]] virtual link_origin origin() const = 0;
  [[nodiscard]] virtual std::string peer() const = 0;  // its address, for people
  [[nodiscard]] virtual std::uint64_t message_limit() const noexcept = 0;
  // The node has made sure who is at the other end. A link whose messages outlive this process
  // keeps that where a successor finds it.
  virtual void confirm(const node_instance& peer) noexcept = 0;
  // Whether a successor of the process at the other end has taken over what was committed.
  [[nodiscard]] virtual bool has_successor() const noexcept { return false; }

  void* context = nullptr;  // the node's

 protected:
  link() = default;
  virtual ~link() = default;
};

class link_events {
 public:
  // A link is open: one that connect() began, or, if `accepted`, one that another node began. In place of
  // what connect() has returned it may be another one, with the context of that, which is gone.
  virtual void opened(link& at, bool accepted) = 0;
  // In place: the bytes are valid until it returns. `redelivered`: an earlier incarnation of this node died
  // while it handled this message. False: the message was not handled, and will not be. A lane does not
  // count it as handled; a link that keeps messages need not look.
  bool received(link& from, bytes_view message, bool redelivered) {
    if (receive_path_.take(from, message, redelivered)) [[likely]]
      return true;
    return received_other(from, message, redelivered);
  }
  // There is room again after would_block.
  virtual void writable(link& at) = 0;
  // The last event of a link, even of one that never opened, and after close() and abort().
  virtual void closed(link& at, const error& why) = 0;
  // The process at the other end is gone; what was committed waits for its successor, and more can
  // be. Of shared memory with a name. Then `recalling`: a successor is there and is called; no data
  // may be committed until it has answered. Then `returned`: it has, has handled all that was
  // committed, and knows nothing of what was said at the opening.
  virtual void left(link& at) = 0;
  virtual void recalling(link& at) = 0;
  virtual void returned(link& at) = 0;
  // A message that waited for an earlier incarnation of this node, from whom that incarnation had confirmed.
  // `awaited`: the sender lives, and nothing of its goes another way before this is handled. False: as
  // of `received`, and nothing more of that sender is handed over: it takes back what waits there.
  virtual bool inherited(const node_instance& source, bytes_view message, bool redelivered,
                         bool awaited) = 0;
  // A problem that belongs to no opened link. Called each time it occurs.
  virtual void problem(const error& what) = 0;

 protected:
  ~link_events() = default;
  virtual bool received_other(link& from, bytes_view message, bool redelivered) = 0;

  direct_receive_path receive_path_;
};

class transport {
 public:
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;
  virtual ~transport() = default;

  // Once, before anything else. `self` names what has to have a name.
  virtual void start(const node_instance& self, link_events& events) = 0;

  // Returns the address that others dial: with the port that was bound, with the name made up.
  virtual result<std::string> listen(const address& at) = 0;
  // The longest message in bytes that can come by each address where this listens.
  [[nodiscard]] virtual std::uint64_t message_limit() const noexcept {
    return std::numeric_limits<std::uint64_t>::max();
  }
  // Never blocks. Errors are those of an address that can't be used; all else is told by closed().
  virtual result<link*> connect(const address& to) = 0;

  // Ends all links and listeners; nothing is told of them. Allowed within an event, after which poll
  // returns; what was not told then waits for a successor, where it can.
  virtual void close() noexcept = 0;

  // Receives and tells. Returns how many messages were told.
  virtual std::size_t poll(const poll_limits& limits) = 0;
  // Within an event: this poll tells nothing more that can wait.
  virtual void end_poll() noexcept = 0;
  // As link::flush, of all links.
  virtual void flush() noexcept = 0;
  // The same at the end of a poll, which may leave it to a later one.
  virtual void flush_due() noexcept { flush(); }

  // As of a receiver: for a caller that sleeps.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  virtual bool prepare_sleep() = 0;
  virtual void finish_sleep() = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds longest_sleep() const noexcept = 0;
  // Sleeps end while that descriptor is readable, too, until it is closed or unwatch(). It stays the caller's.
  // Returns errno; 0: done. What is not of this machine has no such sleep.
  virtual int watch_descriptor(int /*descriptor*/) { return 0; }
  virtual void unwatch_descriptor(int /*descriptor*/) noexcept {}
  // Whether messages come through lanes, where has_messages() sees them without a call of the kernel. A
  // prepared sleep costs there a barrier on every core, and a ring of whoever sends.
  [[nodiscard]] virtual bool has_lanes() const noexcept { return false; }
  [[nodiscard]] virtual bool has_messages() noexcept { return false; }

  // Links that ended inside a TLS handshake, before a registration.
  [[nodiscard]] virtual std::uint64_t tls_failed() const noexcept { return 0; }
  // Of links that were accepted and not confirmed.
  [[nodiscard]] virtual stranger_stats strangers() const noexcept { return {}; }

 protected:
  transport() = default;
};

}  // namespace atbus::detail
