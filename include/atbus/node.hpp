/// @class atbus::node
/// A node: one participant of the bus. It sends messages to other nodes by their bus ids. The node
/// chooses a channel to each of them, queues messages that have to wait, resumes after a lost link,
/// and reports messages that were not delivered.
///
/// ```cpp
/// atbus::node node{1};
/// node.on_message([&](const atbus::message& m) { std::cout << m.text() << '\n'; node.stop(); });
/// if (auto s = node.connect(2, "shm://echo"); !s) return s.print(), 1;
/// node.send(2, 0, "hello");
/// node.run();
/// ```
///
/// Guarantee: each message that send or commit accepted has one outcome. Either the destination's
/// handler gets it, in the order of sending and once per incarnation of that process (a later
/// incarnation gets it again only with the mark `redelivered`). Or on_undelivered is called once
/// for it, with the outcome not_delivered (proven) or outcome_unknown.
///
/// Client: a node with bus id 0. It sends commands and requests to one node, and leaves. connect(0,
/// address) connects to the node at that address, regardless of its id; command(0, ...) and
/// request(0, ...) ask it. A client can do nothing else: it can't listen, send messages, or receive
/// them. The other node knows a client only while it is connected.
///
/// A node runs in one of three ways: run() owns the thread; poll() is called once per frame and
/// never blocks; or a libuv loop drives the node (node_options::loop).
///
/// Ownership: a node owns its links and copies its options. A node_sender and a detached command
/// may outlive it; a slot must not.
///
/// Threads: one thread uses a node and everything that belongs to it. Other threads send through
/// sender().
///
/// Handlers: run only from poll, run and shutdown (or from the loop), and never inside one another.
/// One exception: close and the destructor call the pending callbacks of on_ready, command, request
/// and send_blob, and the receivers of blobs, with `closed` or the outcome that they have, even inside a
/// handler. A callback must not throw then: that would end the process. A handler may call any
/// function: send, close, disconnect, destroy the node.
///
/// Exceptions: a handler may throw. poll, run and shutdown pass the exception on, and the message
/// counts as handled. On a loop the exception stops the loop, as uv_stop does; the node receives
/// nothing more until rethrow(), poll, listen, connect or disconnect has thrown it.
///
/// Errors: functions that can fail return a status or an error (status.hpp).
///
/// Fork: in a forked child a node is unusable; the parent's node is not affected.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atbus/blob.hpp"
#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/command.hpp"
#include "atbus/detail/copy_payload.hpp"
#include "atbus/detail/direct_path.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/id_range.hpp"
#include "atbus/message.hpp"
#include "atbus/node_options.hpp"
#include "atbus/node_report.hpp"
#include "atbus/node_sender.hpp"
#include "atbus/node_stats.hpp"
#include "atbus/policies.hpp"
#include "atbus/request.hpp"
#include "atbus/sleep.hpp"
#include "atbus/status.hpp"
#include "atbus/subscription.hpp"
#include "atbus/task.hpp"
#include "atbus/typed.hpp"

namespace atbus {

class node;

namespace detail {
struct node_access;
class node_core;
class node_state;
}  // namespace detail

/// Writable bytes of one message, in the channel itself where possible. Destroying the slot without
/// a commit discards them; so do poll and any other function of the node that sends, or that ends links.
/// A slot that is claimed in a handler is to be committed there: what the node does behind the handler
/// discards it. So does the end of the link, also if flush finds it. A commit after that does nothing, and the
/// message is not accepted; is_open() tells. A slot must not outlive its node.
class ATBUS_API node_slot {
 public:
  /// Takes the claim over; `other` is empty afterwards.
  node_slot(node_slot&& other) noexcept
      : direct_path_(std::exchange(other.direct_path_, nullptr)),
        core_(std::exchange(other.core_, nullptr)),
        claim_(other.claim_),
        bytes_(other.bytes_),
        why_(other.why_) {}
  node_slot& operator=(node_slot&&) = delete;
  ~node_slot() {
    if (core_ != nullptr) [[unlikely]]
      give_up(*core_, claim_);
  }

  /// Whether there are bytes to fill and commit.
  explicit operator bool() const noexcept { return direct_path_ != nullptr || core_ != nullptr; }
  /// Why the slot is empty: an error of send.
  [[nodiscard]] status why() const noexcept { return why_; }
  /// The bytes to fill: aligned to 8 bytes, not initialized.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  /// The slot itself, so that a slot reads like a result: slot->bytes().
  node_slot* operator->() noexcept { return this; }
  /// Whether a commit would send them: nothing has discarded them.
  [[nodiscard]] bool is_open() const noexcept {
    if (direct_path_ != nullptr)
      return direct_path_->is_claimed(claim_);
    return core_ != nullptr && is_open(*core_, claim_);
  }

  /// Sends the first `length` bytes, by default all. Does nothing if `length` is larger than the
  /// claim, or on a second commit.
  void commit() noexcept { commit(bytes_.size()); }
  /// Sends the first `length` bytes.
  void commit(std::size_t length) noexcept {
    if (length > bytes_.size())
      return;
    if (direct_path_ == nullptr) [[unlikely]] {
      if (core_ != nullptr)
        commit(*std::exchange(core_, nullptr), claim_, length);
      return;
    }
    detail::direct_path& path = *std::exchange(direct_path_, nullptr);
    if (path.claims == claim_)
      path.commit(bytes_.size(), length);
  }

 private:
  friend class node;
  struct core_claim {
    detail::node_core* core = nullptr;
    std::uint64_t number = 0;
    std::byte* at = nullptr;
    status why;
  };
  node_slot(detail::direct_path& path, mutable_bytes bytes) noexcept
      : direct_path_(&path), claim_(path.claims), bytes_(bytes) {}
  node_slot(const core_claim& of, std::size_t length) noexcept
      : core_(of.core),
        claim_(of.number),
        bytes_(of.at, of.core != nullptr ? length : 0),
        why_(of.why) {}
  // Arguments are passed by value so that the slot can stay in registers.
  static void commit(detail::node_core& core, std::uint64_t claim, std::size_t length) noexcept;
  static void give_up(detail::node_core& core, std::uint64_t claim) noexcept;
  static bool is_open(const detail::node_core& core, std::uint64_t claim) noexcept;

  // Where it was claimed: in one of the two, or in neither.
  detail::direct_path* direct_path_ = nullptr;
  detail::node_core* core_ = nullptr;
  std::uint64_t claim_ = 0;  // its number
  mutable_bytes bytes_;
  status why_;
};

/// What `co_await node.ready(id, timeout)` waits for: ok once that node is connected; timed_out;
/// closed if this node ends first; or an error of on_ready. Works in any coroutine type; a coroutine
/// that is destroyed while it waits is not resumed.
class ATBUS_API ready_awaitable {
 public:
  ready_awaitable(const ready_awaitable&) = delete;
  ready_awaitable& operator=(const ready_awaitable&) = delete;
  ~ready_awaitable() {
    if (self_ != nullptr)
      *self_ = nullptr;
  }

  /// Always false: the coroutine waits for the node.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Begins to wait. False: that failed, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting);
  /// How the wait ended: ok, timed_out, closed, or an error of node::on_ready.
  [[nodiscard]] status await_resume() const noexcept { return result_; }

 private:
  friend class node;
  ready_awaitable(detail::node_core* core, bus_id id, std::chrono::nanoseconds timeout) noexcept
      : core_(core), id_(id), timeout_(timeout) {}

  detail::node_core* core_;
  bus_id id_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<ready_awaitable*> self_;  // for the call, which may come later than the end
  status result_;
};

class ATBUS_API node {
 public:
  /// `id` is the bus id of this node; 0 makes it a client. A node with invalid options does not
  /// work: fault() says what is wrong, and each function that can fail returns that error.
  explicit node(bus_id id, const node_options& options = {});
  /// Takes the node over; `other` is closed afterwards.
  node(node&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)),
        direct_path_(std::exchange(other.direct_path_, nullptr)) {}
  /// Closes this node and takes the other over.
  node& operator=(node&& other) noexcept {
    if (this != &other) {
      close();
      state_ = std::exchange(other.state_, nullptr);
      direct_path_ = std::exchange(other.direct_path_, nullptr);
    }
    return *this;
  }
  ~node() { close(); }

  /// The bus id of this node; 0 for a client.
  [[nodiscard]] bus_id id() const noexcept;
  /// A random number; each incarnation of the node has its own.
  [[nodiscard]] std::uint64_t incarnation() const noexcept;

  /// What is wrong with the options; no error if the node can work.
  [[nodiscard]] error fault() const;

  /// Listens at this address; may be called any number of times. Errors: those of receiver::open;
  /// denied (TCP without a token, see node_options::allow_unauthenticated); invalid_argument (a
  /// client; a message_limit too low for a handshake); closed.
  [[nodiscard]] error listen(std::string_view address);
  /// Where the node listens, with the ports that were bound and the names that were generated.
  [[nodiscard]] std::vector<std::string> addresses() const;

  /// Expects node `id` at this address, in addition to the addresses of earlier calls. Messages to
  /// it wait until it is connected, up to node_options::send_buffer_size bytes. While it is not
  /// connected, this node dials it again (node_options::retry). Errors: an address that can't be
  /// used; denied for TCP without a token; invalid_argument (this node's id; 0, unless this is a
  /// client; any other id if it is); closed.
  [[nodiscard]] error connect(bus_id id, std::string_view address);
  /// Stops dialling that node and ends the links to it. The goodbye takes at most 1 s. Accepted
  /// messages to that node without an outcome are reported with the reason `closed`: queued ones at
  /// once, those in flight when their link has ended. None of them takes another route or waits for
  /// that node to return; messages sent after this call do. Errors: not_found, closed.
  error disconnect(bus_id id);
  /// Offers a service by name: the directory tells others of it (service.hpp), until withdraw(), or until
  /// this node leaves or closes. Offering it again does nothing. `name` has 1 to 128 printable characters.
  /// Errors: invalid_argument (a name that can't be one; more than 256 services; a client), not_supported
  /// (there is no directory, or it can't be told, as nodes.toml), closed; another error of the directory:
  /// then it hears of the service when it works again.
  error offer(std::string_view name);
  /// Offers it no longer. What was sent here stays. Errors: not_found, closed; another error of the
  /// directory: then it hears of that when it works again.
  error withdraw(std::string_view name);
  /// Subscribes to a topic, in place of an earlier subscription to it: `handler` is called for each message
  /// that is published there from now on (topic.hpp) by a node that this one is connected to, or that is in
  /// the same tree. Messages of this node's own come, too. `name` has 1 to 128 printable characters. Errors:
  /// invalid_argument (a name that can't be one; no handler; options that can't be; more than 4,096
  /// subscriptions), not_supported (a client), closed, used_after_fork.
  error subscribe(std::string_view name, std::function<void(const topic_message&)> handler,
                  const subscription_options& options = {});
  /// Ends that. Errors: not_found, closed, used_after_fork.
  error unsubscribe(std::string_view name);
  /// Sets the policy for messages sent to that node from now on, in place of node_options::overflow
  /// and message_deadline. It holds whether the node is connected or not, until the next call.
  /// Errors: invalid_argument (this node's id, 0, a negative deadline), closed.
  error set_policy(bus_id id, const peer_policy& policy);
  /// Replaces the tokens of a node that was made with some (node_options::token): it proves the first and
  /// accepts all. Links whose other end has proven another token end, and have to register anew; those
  /// that register at this moment begin anew. Errors: invalid_argument (no token; one that is too short
  /// or too long; the node was made without one), out_of_memory, system_error, closed; then nothing has
  /// changed.
  [[nodiscard]] error set_tokens(const std::vector<std::string>& secrets);
  /// When this node's certificate expires (node_options::certificates); nothing without one.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> certificate_expires()
      const noexcept;
  /// The bus id of the connected parent (node_options::parent); 0 if no parent is connected.
  [[nodiscard]] bus_id parent() const noexcept;

  /// Accepts a copy of the message. To a node without a link the message goes over other nodes: the
  /// parent or a child (node_options::parent). A message to the node's own id is delivered by the
  /// next poll.
  ///
  /// Errors: no_route (no such route, and neither connect() nor the directory names that node),
  /// would_block (the queue is full; on_writable is called when there is room), not_connected (with
  /// overflow_policy::disconnect: the link was full and is broken off), message_too_large, closed,
  /// not_supported (this node is a client), denied (node_options::access), out_of_memory.
  status send(bus_id to, std::uint32_t type, bytes_view bytes) noexcept {
    std::byte* const at =
        direct_path_ != nullptr ? direct_path_->claim(to, type, bytes.size()) : nullptr;
    if (at == nullptr) [[unlikely]]
      return send_elsewhere(to, type, bytes);
    detail::copy_payload(at, bytes.data(), bytes.size());
    direct_path_->commit(bytes.size(), bytes.size());
    return {};
  }
  /// Accepts a copy of the text, as send of bytes does.
  status send(bus_id to, std::uint32_t type, std::string_view text) noexcept {
    return send(to, type, as_bytes(text));
  }
  /// Sends with a policy that applies while no route to that node is known. With
  /// delivery_policy::require, the message also waits for a node below this one that is not running
  /// yet.
  status send(bus_id to, std::uint32_t type, bytes_view bytes, delivery_policy policy) noexcept;
  /// Sends the text with a policy.
  status send(bus_id to, std::uint32_t type, std::string_view text,
              delivery_policy policy) noexcept {
    return send(to, type, as_bytes(text), policy);
  }
  /// Sends with a trace context; see trace_context.hpp. The payload may have message_limit -
  /// trace_context::size bytes.
  status send(bus_id to, std::uint32_t type, bytes_view bytes, const trace_context& trace) noexcept;
  /// Sends the text with a trace context.
  status send(bus_id to, std::uint32_t type, std::string_view text,
              const trace_context& trace) noexcept {
    return send(to, type, as_bytes(text), trace);
  }
  /// Accepts a copy of the value, as send of its bytes does; see typed.hpp. Also: what its codec
  /// throws.
  template <typed_message T>
  status send(bus_id to, const T& value) {
    if constexpr (requires { codec<T>::size(value); }) {
      node_slot slot = claim(to, message_type<T>::value, codec<T>::size(value));
      if (!slot)
        return slot.why();
      codec<T>::write(value, slot.bytes());
      slot.commit();
      return {};
    } else {
      return detail::with_bytes_of(
          value, [&](bytes_view bytes) { return send(to, message_type<T>::value, bytes); });
    }
  }
  /// `length` writable bytes of a message. If send would fail, the slot is false and why() returns
  /// the error.
  [[nodiscard]] node_slot claim(bus_id to, std::uint32_t type, std::size_t length) noexcept {
    std::byte* const at = direct_path_ != nullptr ? direct_path_->claim(to, type, length) : nullptr;
    if (at == nullptr) [[unlikely]]
      return {claim_elsewhere(to, type, length), length};
    return {*direct_path_, {at, length}};
  }

  /// Sends to all nodes in the range to which there is a route now, except this one: one copy over
  /// each link, passed on by parents and children. Each node delivers a broadcast at most once. It
  /// is neither acknowledged nor repeated: a full link drops it (node_stats::relay_drops), and so
  /// does a node whose message_limit is lower (broadcast_drops). Errors: no_route (no link leads to
  /// any of them), would_block (none of the links has room), message_too_large, not_supported (this
  /// node is a client), denied (node_options::access), closed.
  status broadcast(const id_range& to, std::uint32_t type, bytes_view bytes);
  /// Broadcasts, and asks which nodes got the message. Once `timeout` has passed (0 or less: with
  /// the next poll), calls `reached` with the nodes that have confirmed the message. would_block
  /// also while 64 such calls are outstanding; invalid_argument: `reached` is empty.
  status broadcast(const id_range& to, std::uint32_t type, bytes_view bytes,
                   std::chrono::nanoseconds timeout,
                   std::function<void(const std::vector<bus_id>&)> reached);

  /// Sends that node a command: a name and its arguments, at most 1,024 words in all. If this
  /// returns ok, `call` is called exactly once, and never from within this function, with:
  ///
  ///     ok                the reply
  ///     command_failed    and the reason, in the words of the node that was asked
  ///     unknown_command   that node has no such command
  ///     timed_out         unknown: the command may have been carried out, or may be later
  ///     closed            this node ends
  ///     any other error   why it was not delivered, or may not have been (undelivered::reason)
  ///
  /// Errors: those of send; invalid_argument (no words, more than 1,024, a negative timeout, no
  /// function); would_block also while 4,096 commands of this node have no answer (on_writable is called when
  /// half of them have one).
  status command(bus_id to, const command_words& words, std::chrono::nanoseconds timeout,
                 std::function<void(status, const command_reply&)> call);
  /// The same for coroutines: `co_await node.command(...)` gives a result<command_reply>.
  [[nodiscard]] command_awaitable command(bus_id to, command_words words,
                                          std::chrono::nanoseconds timeout);

  /// Sends that node a request; see request.hpp. If the handle is true, `call` is called exactly
  /// once, and never from within this function, with the outcome (response::how). The payload may
  /// have message_limit - request_overhead bytes.
  ///
  /// Errors: those of send; invalid_argument (a negative timeout, no function); would_block also while
  /// node_options::requests of this node's requests to that node have no outcome (on_writable is
  /// called when half of them have one).
  request_handle request(bus_id to, std::uint32_t type, bytes_view bytes,
                         std::chrono::nanoseconds timeout,
                         std::function<void(const response&)> call);
  /// A request with a text.
  request_handle request(bus_id to, std::uint32_t type, std::string_view text,
                         std::chrono::nanoseconds timeout,
                         std::function<void(const response&)> call) {
    return request(to, type, as_bytes(text), timeout, std::move(call));
  }
  /// A request with a trace context; see trace_context.hpp. The payload may be trace_context::size bytes
  /// shorter.
  request_handle request(bus_id to, std::uint32_t type, bytes_view bytes,
                         std::chrono::nanoseconds timeout, const trace_context& trace,
                         std::function<void(const response&)> call);
  /// The same for coroutines: `co_await node.request(...)` gives a kept_response. The bytes must be
  /// valid until the coroutine waits.
  [[nodiscard]] request_awaitable request(
      bus_id to, std::uint32_t type, bytes_view bytes, std::chrono::nanoseconds timeout,
      const std::optional<trace_context>& trace = std::nullopt) noexcept;
  /// The same with a text.
  [[nodiscard]] request_awaitable request(bus_id to, std::uint32_t type, std::string_view text,
                                          std::chrono::nanoseconds timeout) noexcept {
    return request(to, type, as_bytes(text), timeout);
  }
  /// A request and a response that are values; see typed.hpp. Also: what a codec throws.
  template <has_codec Reply, typed_message T, std::invocable<const typed_response<Reply>&> Call>
  request_handle request(bus_id to, const T& value, std::chrono::nanoseconds timeout, Call call) {
    return detail::with_bytes_of(value, [&](bytes_view bytes) {
      return request(
          to, message_type<T>::value, bytes, timeout,
          [call = std::move(call)](const response& r) mutable { call(typed_response<Reply>{r}); });
    });
  }
  /// The same for coroutines: `co_await node.request<Reply>(...)` gives a typed_response<Reply>.
  template <has_codec Reply, typed_message T>
  [[nodiscard]] typed_request_awaitable<Reply> request(bus_id to, const T& value,
                                                       std::chrono::nanoseconds timeout) {
    return {value,
            [&](bytes_view bytes) { return request(to, message_type<T>::value, bytes, timeout); }};
  }
  /// Ends the wait for that request: its call gets `cancelled`, and the node that was asked is told
  /// (request::is_wanted). Errors: not_found (its outcome is known already, or it was not
  /// accepted), closed.
  status cancel(const request_handle& which);

  /// One request to each of these nodes: `call` is called once, as of request, as soon as `enough` of
  /// them have replied, or all have an outcome, at the latest after `timeout`. It gets the outcome of
  /// each, in the order of `to`; requests that still wait then are cancelled. Nodes that can't be
  /// asked have the error of request as their outcome. Errors: invalid_argument (no nodes, enough is
  /// 0, a negative timeout), closed, out_of_memory.
  status gather(const std::vector<bus_id>& to, std::uint32_t type, bytes_view bytes,
                std::size_t enough, std::chrono::nanoseconds timeout,
                std::function<void(const std::vector<kept_response>&)> call);
  /// The same for coroutines: `co_await node.gather(...)` gives a std::vector<kept_response>, empty
  /// if the call was refused. The bytes must be valid until the coroutine waits.
  [[nodiscard]] gather_awaitable gather(std::vector<bus_id> to, std::uint32_t type,
                                        bytes_view bytes, std::size_t enough,
                                        std::chrono::nanoseconds timeout) noexcept;

  /// Sends what may be longer than any message; see blob.hpp. It waits for a link as a message does.
  /// `call` is called once, from poll, with the outcome. Errors, after which no call is made:
  /// invalid_argument (no call; an empty function as the source of bytes; a note that is too long; more
  /// than 2^63 - 1 bytes), would_block (4,096 blobs wait for their outcome), no_route, denied,
  /// message_too_large (the note, or a message limit of either end below 32 bytes), closed,
  /// used_after_fork, not_supported (this node is a client, or that one is of a version without blobs),
  /// out_of_memory; those of a node that could not be set up.
  blob_handle send_blob(bus_id to, std::uint32_t type, blob_source source,
                        std::function<void(const blob_outcome&)> call,
                        const blob_options& options = {});
  /// Cancels a blob of this node's: its outcome is cancelled. Errors: not_found (its outcome is known
  /// already, or it was not accepted), closed.
  status cancel_blob(const blob_handle& which);
  /// Sets the handler of all blobs of this type, which is told of the beginning of each. Blobs of a
  /// type without a handler are refused. If the handler throws, the blob fails with "its handler
  /// threw". An empty handler counts as none.
  void on_blob(std::uint32_t type, std::function<void(incoming_blob&)> handler);
  /// Ends a pause of a blob that comes (blob_part::pause). Errors: not_found (it is over), closed.
  status resume_blob(const blob_id& which);
  /// Refuses the rest of a blob that comes, as blob_part::refuse does, at any time. Errors: not_found (it
  /// is over), closed.
  status refuse_blob(const blob_id& which, std::string_view why);

  /// `co_await node.sleep(time)` waits for that time on the node's clock; see sleep.hpp. 0 or less:
  /// until the next poll.
  [[nodiscard]] sleep_awaitable sleep(std::chrono::nanoseconds time) noexcept {
    return {core(), time};
  }
  /// Starts a task that nothing awaits; it runs at once until it first waits. An exception that
  /// leaves it is thrown by the poll that resumed it, or by spawn; after the node has ended it is
  /// dropped.
  void spawn(task<> what);

  /// A sender for another thread, with a lane of its own into this node. Its send returns any
  /// error.
  [[nodiscard]] node_sender sender();

  /// Called for each message to this node; see message.
  void on_message(std::function<void(const message&)> handler);
  /// Called for each message that is a T, in place of on_message, with the value, or with the value
  /// and the message; see typed.hpp. Messages of its number that are no T are counted and dropped.
  /// Errors: invalid_argument (another type of this program has this number), closed.
  template <typed_message T, class Handler>
  error on(Handler handler) {
    return set_typed(message_type<T>::value, &detail::type_tag<T>,
                     [handler = std::move(handler)](const message& m) mutable {
                       return detail::call_typed<T>(handler, m);
                     });
  }
  /// Ends that: messages of its number go to on_message again.
  template <typed_message T>
  void off() {
    (void)set_typed(message_type<T>::value, &detail::type_tag<T>, {});
  }
  /// Sets the handler of all commands. A command without a handler is answered with
  /// unknown_command. An empty handler counts as none.
  void on_command(std::function<void(atbus::command&)> handler);
  /// Sets the handler of the commands with this name, which then no longer go to the handler of all
  /// commands.
  void on_command(std::string_view name, std::function<void(atbus::command&)> handler);
  /// Sets the handler of the requests of this type, which then no longer go to the handler of all
  /// requests.
  void on_request(std::uint32_t type, std::function<void(atbus::request&)> handler);
  /// Sets the handler of all requests. A request without a handler is answered with
  /// unknown_request. An empty handler counts as none. If a handler throws, the request fails with
  /// "its handler threw".
  void on_request(std::function<void(atbus::request&)> handler);
  /// The same for a handler that is a coroutine: it takes the request by value and returns a task<>.
  /// It runs at once until it first waits. Its exceptions are treated as those of spawn.
  template <class Handler>
  requires std::same_as<std::invoke_result_t<Handler&, atbus::request>, task<>>
  void on_request(std::uint32_t type, Handler handler) {
    on_request(type, as_handler(std::move(handler)));
  }
  /// The same for requests that are a T: the handler takes the value and returns the reply, or takes
  /// the value and the request. Requests of its number that are no T are counted, and fail.
  template <typed_message T, class Handler>
  void on_request(Handler handler) {
    on_request(message_type<T>::value,
               std::function<void(atbus::request&)>{
                   [handler = std::move(handler)](atbus::request& r) mutable {
                     if (!detail::call_typed<T>(handler, r))
                       r.refuse_malformed();
                   }});
  }
  /// The same for all requests.
  template <class Handler>
  requires std::same_as<std::invoke_result_t<Handler&, atbus::request>, task<>>
  void on_request(Handler handler) { on_request(as_handler(std::move(handler))); }
  /// Called once for each accepted message whose outcome is not_delivered or outcome_unknown. Many
  /// messages dropped for lack of room between two polls may share one call (undelivered::count).
  /// Without a handler, only stats() counts them.
  void on_undelivered(std::function<void(const undelivered&)> handler);
  /// Called when the state of another node changes; see endpoint_event.
  void on_endpoint(std::function<void(const endpoint&, endpoint_event)> handler);
  /// Called after a would_block of send, claim, command, request or reply, once that destination has room again.
  void on_writable(std::function<void(bus_id)> handler);
  /// Called with one line of text for operators, without a newline. At most 1,000 lines wait for a
  /// poll; a further line then tells how many were left out.
  void on_log(std::function<void(std::string_view)> sink);

  /// Calls `call` once: with ok when node `id` is connected, with timed_out after `timeout`
  /// (negative: never), or with closed when this node ends. Errors: closed; would_block while 4,096
  /// calls wait.
  error on_ready(bus_id id, std::chrono::nanoseconds timeout, std::function<void(status)> call);
  /// The same for coroutines: `co_await node.ready(...)` gives a status.
  [[nodiscard]] ready_awaitable ready(bus_id id, std::chrono::nanoseconds timeout) noexcept;

  /// Sends, receives and calls handlers; never blocks. Returns the number of messages delivered.
  /// Called from a handler, it does nothing and returns 0.
  std::size_t poll(const poll_limits& limits = {});
  /// Sleeps until poll has something to do (ok) or `timeout` has passed (timed_out; negative: no
  /// limit). Before it sleeps it spins for at most 50 us, and less when spinning has not paid off
  /// lately. Errors: closed, used_after_fork, invalid_argument (from a handler), and that of
  /// fault().
  status wait(std::chrono::nanoseconds timeout);
  /// Polls and waits until stop() was called and every accepted message has an outcome, or
  /// node_options::drain has passed. Errors: timed_out (some messages have no outcome; shutdown
  /// reports them), closed (also when a handler destroys the node), used_after_fork,
  /// invalid_argument (on a loop, or from a handler), and that of fault().
  status run();
  /// Makes run() return once accepted messages have an outcome; see run(). Call it from the node's
  /// thread.
  void stop() noexcept;
  /// Graceful shutdown: waits until every accepted message has an outcome, at most `deadline`
  /// (negative: no limit), says goodbye (at most 1 s), ends the node, and reports the messages that
  /// were not delivered. Errors: timed_out (some messages had no outcome by then), closed,
  /// used_after_fork, invalid_argument (from a handler), and that of fault().
  status shutdown(std::chrono::nanoseconds deadline);
  /// Whether every accepted message has an outcome, as far as poll has been told. A program that must not block waits
  /// for this in its own loop before it calls shutdown. True once the node is closed.
  [[nodiscard]] bool is_settled() const noexcept;
  /// Sends messages queued for sockets and for routes over other nodes now, instead of at the next
  /// poll.
  void flush() noexcept;

  /// A descriptor for event loops, used as receiver::descriptor. node_options::loop does this for
  /// libuv.
  [[nodiscard]] int descriptor() const noexcept;
  /// Prepares to sleep, as receiver::prepare_sleep.
  [[nodiscard]] bool prepare_sleep();
  /// Ends the sleep, as receiver::finish_sleep.
  void finish_sleep();
  /// How long a prepared node may sleep, as receiver::longest_sleep.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  /// On a libuv loop: throws, once, the exception that a handler threw there.
  void rethrow();
  /// Whether a handler's exception waits for rethrow().
  [[nodiscard]] bool failed() const noexcept;

  /// Counters since the node was made.
  [[nodiscard]] node_stats stats() const noexcept;
  /// What the node says of itself: its counters, and the nodes that it knows.
  [[nodiscard]] node_report report() const;
  /// The ids of the nodes in that range to which this one is connected, in order: for gather.
  [[nodiscard]] std::vector<bus_id> connected(const id_range& within) const;
  /// A copy of each node that this one knows.
  [[nodiscard]] std::vector<endpoint> endpoints() const;

  /// Ends the node at once. Messages without an outcome are lost without a report. Idempotent;
  /// allowed in a handler.
  void close() noexcept;
  /// False after close(), once the node has ended or was moved away.
  [[nodiscard]] bool is_open() const noexcept;

 private:
  friend struct detail::node_access;
  explicit node(detail::node_state& state) noexcept;
  [[nodiscard]] detail::node_core* core() const noexcept;
  error set_typed(std::uint32_t type, const void* tag, std::function<bool(const message&)> handler);
  // Where the exceptions of tasks go that nothing awaits. Usable after the node has ended.
  [[nodiscard]] std::function<void(std::exception_ptr)> exception_sink() const;
  template <class Handler>
  [[nodiscard]] std::function<void(atbus::request&)> as_handler(Handler handler) const {
    return [handler = std::move(handler), sink = exception_sink()](atbus::request& r) mutable {
      start(handler(r.detach()), sink);
    };
  }
  status send_elsewhere(bus_id to, std::uint32_t type, bytes_view bytes) noexcept;
  [[nodiscard]] node_slot::core_claim claim_elsewhere(bus_id to, std::uint32_t type,
                                                      std::size_t length) noexcept;

  detail::node_state* state_ = nullptr;
  detail::direct_path* direct_path_ = nullptr;  // in *state_
};

}  // namespace atbus
