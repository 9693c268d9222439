/// @file
/// Requests: a node asks another node's program something, in bytes, and gets one response.
///
/// ```cpp
/// node.on_request(7, [](atbus::request& r) { r.reply(look_up(r.bytes())); });
///
/// node.request(2, 7, key, 200ms, [](const atbus::response& r) {
///   r ? use(r.bytes()) : r.how().print();
/// });
/// atbus::kept_response r = co_await node.request(2, 7, key, 200ms);
/// ```
///
/// A request travels like a message: in order with the messages to that node, queued while there is
/// no link, over every kind of channel and over relays. Its deadline travels with it: no handler
/// starts on a request that nobody waits for any more. Each request that node::request accepted has
/// exactly one outcome, and so exactly one call.
///
/// Threads: the node's own. Cost: that of two messages; nothing is allocated once tables have their
/// size, if the captures of the call fit into a std::function (16 bytes) and the response into a
/// kept_response (64 bytes).
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"
#include "atbus/trace_context.hpp"

namespace atbus {

namespace detail {
class node_core;
class request_exchange;
class kept_requests;
class gathering;
}  // namespace detail

/// Bytes that atbus puts in front of a request's payload. The payload may have as many fewer than
/// node_options::message_limit.
inline constexpr std::size_t request_overhead = 24;
/// The same of a response.
inline constexpr std::size_t response_overhead = 8;

/// The outcome of a request. Valid until the call that got it returns, and so are its bytes;
/// kept_response copies them.
class response {
 public:
  /// Made by nodes. A program makes one to test its own handlers. `bytes` are not copied.
  response(status how, bus_id source, bytes_view bytes) noexcept
      : how_(how), source_(source), bytes_(bytes) {}

  /// Whether the node that was asked has replied.
  explicit operator bool() const noexcept { return static_cast<bool>(how_); }
  /// The outcome:
  ///
  ///     ok                the handler replied: bytes()
  ///     request_failed    the handler failed it: text() says why
  ///     unknown_request   that node has no handler for this type
  ///     timed_out         the deadline has passed: the request may have been handled, or may be later
  ///     cancelled         by node::cancel
  ///     outcome_unknown   the process that had the request in hand has ended, or its reply was
  ///                       given up: it had no link to this node for its first_idle_timeout
  ///     closed            this node ends
  ///     any other error   why it was not delivered, or may not have been (undelivered::reason)
  [[nodiscard]] status how() const noexcept { return how_; }
  /// The node that was asked.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The reply; of request_failed, the reason.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// The same as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }

 private:
  status how_;
  bus_id source_;
  bytes_view bytes_;
};

/// A response that owns its bytes: up to 64 of them in the object, more on the heap.
class ATBUS_API kept_response {
 public:
  /// Without an outcome: not ok.
  kept_response() noexcept = default;
  /// Copies the response. Without memory for its bytes: the outcome is out_of_memory.
  explicit kept_response(const response& from) noexcept;
  /// Takes the bytes over; `other` has none afterwards.
  kept_response(kept_response&& other) noexcept { *this = std::move(other); }
  /// Takes the bytes over; `other` has none afterwards.
  kept_response& operator=(kept_response&& other) noexcept;
  ~kept_response() = default;

  /// Whether the node that was asked has replied.
  explicit operator bool() const noexcept { return static_cast<bool>(how_); }
  /// The outcome; see response::how. invalid_argument if there is none.
  [[nodiscard]] status how() const noexcept { return how_; }
  /// The node that was asked.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The reply; of request_failed, the reason. Valid as long as this object is.
  [[nodiscard]] bytes_view bytes() const noexcept {
    return {large_ != nullptr ? large_.get() : small_.data(), size_};
  }
  /// The same as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes()); }

 private:
  status how_ = errc::invalid_argument;
  bus_id source_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> large_;
  std::array<std::byte, 64> small_;
};

/// What node::request returns: whether the request was accepted, and its name for node::cancel. A
/// plain value.
class request_handle {
 public:
  /// Of no request.
  request_handle() noexcept = default;

  /// Whether the request was accepted.
  explicit operator bool() const noexcept { return static_cast<bool>(why_); }
  /// Why it was not: an error of node::request.
  [[nodiscard]] status why() const noexcept { return why_; }

 private:
  friend class detail::request_exchange;
  friend class node;
  request_handle(status why, std::uint64_t number) noexcept : why_(why), number_(number) {}

  status why_ = errc::invalid_argument;
  std::uint64_t number_ = 0;
};

class request;

/// What `co_await node.gather(...)` waits for. Works in any coroutine type. A coroutine that is
/// destroyed while it waits cancels the requests.
class ATBUS_API gather_awaitable {
 public:
  gather_awaitable(const gather_awaitable&) = delete;
  gather_awaitable& operator=(const gather_awaitable&) = delete;
  ~gather_awaitable();

  /// Always false: the coroutine waits for the responses.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Sends the requests. False: that was refused, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting);
  /// The outcome of each, in the order of the nodes; empty if it was refused.
  [[nodiscard]] std::vector<kept_response> await_resume() noexcept { return std::move(result_); }

 private:
  friend class node;
  gather_awaitable(detail::node_core* core, std::vector<bus_id> to, std::uint32_t type,
                   bytes_view bytes, std::size_t enough, std::chrono::nanoseconds timeout) noexcept
      : core_(core),
        to_(std::move(to)),
        type_(type),
        bytes_(bytes),
        enough_(enough),
        timeout_(timeout) {}

  detail::node_core* core_;
  std::vector<bus_id> to_;
  std::uint32_t type_;
  bytes_view bytes_;
  std::size_t enough_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<detail::gathering> gathering_;  // while it waits
  std::vector<kept_response> result_;
};

/// Writable bytes of one reply, in the channel itself where possible. Destroying the slot without a
/// commit discards them; so do poll, any function of the node that sends, what the node does behind the
/// handler that has claimed it, and the end of the link. A commit after that does nothing. While there is a slot, its request must be neither moved nor destroyed.
class ATBUS_API response_slot {
 public:
  /// Takes the claim over; `other` is empty afterwards.
  response_slot(response_slot&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)),
        claim_(other.claim_),
        bytes_(other.bytes_),
        why_(other.why_) {}
  response_slot& operator=(response_slot&&) = delete;
  ~response_slot() {
    if (of_ != nullptr)
      give_up();
  }

  /// Whether there are bytes to fill and commit.
  explicit operator bool() const noexcept { return of_ != nullptr; }
  /// Why the slot is empty: an error of request::reply.
  [[nodiscard]] status why() const noexcept { return why_; }
  /// The bytes to fill: aligned to 8 bytes, not initialized.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  /// The slot itself, so that a slot reads like a result: slot->bytes().
  response_slot* operator->() noexcept { return this; }

  /// Replies with the bytes.
  void commit() noexcept { commit(bytes_.size()); }
  /// Replies with the first `length` bytes. Does nothing if `length` is larger than the claim, or on
  /// a second commit; the request then still has to be answered.
  void commit(std::size_t length) noexcept;

 private:
  friend class request;
  friend class detail::request_exchange;
  response_slot(request* of, std::uint64_t claim, mutable_bytes bytes, status why) noexcept
      : of_(of), claim_(claim), bytes_(bytes), why_(why) {}
  void give_up() noexcept;

  request* of_;
  std::uint64_t claim_;
  mutable_bytes bytes_;
  status why_;
};

/// A request from another node, which this node has to answer: at once, or later, once it was moved
/// out of its handler (`detach`). Destroying it without an answer fails it. A request may outlive
/// its node; its calls then have no effect. Threads: the node's own.
class ATBUS_API request {
 public:
  /// Takes the request over; `other` is empty afterwards.
  request(request&& other) noexcept { take(other); }
  /// Fails the current request if it has no answer yet, then takes `other` over.
  request& operator=(request&& other) noexcept;
  ~request() {
    if (exchange_ != nullptr) [[unlikely]]
      give_up();
  }

  /// The node that asks; 0 for a client.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The number that was passed to node::request.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// The payload, in place. Valid until the handler returns or, of a coroutine, until it first
  /// waits; empty afterwards, and once a request that was moved out is answered.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// The payload as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }
  /// True if an earlier incarnation of this node may have handled it.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }
  /// The trace context that it was sent with; nothing: without one.
  [[nodiscard]] const std::optional<trace_context>& trace() const noexcept { return trace_; }
  /// When the asking node stops waiting, on the node's clock. If that node is on another host, the
  /// time the request was under way is not known, so this may be later by as much.
  [[nodiscard]] std::chrono::nanoseconds deadline() const noexcept { return deadline_; }
  /// Whether somebody still waits for the answer: there is none yet, the deadline has not passed,
  /// the request was not cancelled, and this node is open.
  [[nodiscard]] bool is_wanted() const noexcept;

  /// Replies. Errors: would_block (the queue to that node is full: try again, or in on_writable),
  /// message_too_large (for this node or the asking one), peer_closed (the asking process has
  /// ended), closed, out_of_memory; after these the request still has to be answered. Nobody waits
  /// any more, and it counts as answered: timed_out, cancelled. invalid_argument: it was answered
  /// before, or moved away.
  status reply(bytes_view bytes) noexcept;
  /// Replies with a text.
  status reply(std::string_view text) noexcept { return reply(as_bytes(text)); }
  /// Replies with a value of a type that has a codec; see typed.hpp.
  template <class T>
  requires(!std::convertible_to<const T&, bytes_view> &&
           !std::convertible_to<const T&, std::string_view>) status reply(const T& value);
  /// `length` writable bytes for the reply. If reply would fail, the slot is false and why() returns
  /// the error.
  [[nodiscard]] response_slot claim(std::size_t length) noexcept;
  /// Fails the request. The asking node gets request_failed and the first 1,024 bytes of `why`.
  /// Errors: as reply.
  status fail(std::string_view why) noexcept;

  /// Moves the request out, to be answered later; this object is empty afterwards. Copy bytes()
  /// before, in a statement of its own: the arguments of a function have no order.
  [[nodiscard]] request detach() noexcept { return std::move(*this); }

 private:
  friend class detail::request_exchange;
  friend class detail::kept_requests;
  friend class response_slot;
  request(detail::request_exchange& through, bus_id source, std::uint64_t incarnation,
          std::uint64_t number, std::uint32_t type, bytes_view bytes,
          std::chrono::nanoseconds deadline, bool redelivered) noexcept
      : exchange_(&through),
        source_(source),
        incarnation_(incarnation),
        number_(number),
        deadline_(deadline),
        bytes_(bytes),
        type_(type),
        redelivered_(redelivered) {}
  [[nodiscard]] status why_not() const noexcept {
    return closed_ ? errc::closed : errc::invalid_argument;
  }
  void take(request& other) noexcept;
  friend class node;
  // It is no value of its type: counts that, and fails the request.
  void refuse_malformed() noexcept;
  void give_up() noexcept;

  detail::request_exchange* exchange_ = nullptr;  // to answer through; null once answered
  bus_id source_;
  std::uint64_t incarnation_ = 0;  // of the source
  std::uint64_t number_ = 0;
  std::chrono::nanoseconds deadline_{0};
  bytes_view bytes_;
  std::uint32_t type_ = 0;
  bool redelivered_ = false;
  std::optional<trace_context> trace_;
  bool cancelled_ = false;
  bool closed_ = false;  // its node has ended
  // Once it was moved out of its handler: in the list of those, so that a cancel finds it.
  request* next_ = nullptr;
  request** at_ = nullptr;
};

/// What `co_await node.request(...)` waits for. Works in any coroutine type. A coroutine that is
/// destroyed while it waits cancels its request.
class ATBUS_API request_awaitable {
 public:
  request_awaitable(const request_awaitable&) = delete;
  request_awaitable& operator=(const request_awaitable&) = delete;
  ~request_awaitable();

  /// Always false: the coroutine waits for the response.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Sends the request. False: it was refused, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting);
  /// The response; or, of a request that was refused, the error of node::request as its outcome.
  [[nodiscard]] kept_response await_resume() noexcept { return std::move(result_); }

 private:
  friend class node;
  request_awaitable(detail::node_core* core, bus_id to, std::uint32_t type, bytes_view bytes,
                    std::chrono::nanoseconds timeout,
                    const std::optional<trace_context>& trace) noexcept
      : core_(core), to_(to), type_(type), bytes_(bytes), timeout_(timeout), trace_(trace) {}

  detail::node_core* core_;
  bus_id to_;
  std::uint32_t type_;
  bytes_view bytes_;
  std::chrono::nanoseconds timeout_;
  std::optional<trace_context> trace_;
  request_handle sent_;
  bool waits_ = false;
  std::shared_ptr<const bool> open_;  // once it waits: whether there is anything to cancel
  kept_response result_;
};

}  // namespace atbus
