// A node: one participant of the bus. It names other nodes by their bus ids and sends; the bus finds
// a channel to them, keeps what waits, goes on after a loss, and says what did not arrive.
//
//   atbus::node node{1};
//   node.on_message([&](const atbus::message& m) { std::cout << m.text() << '\n'; node.stop(); });
//   if (auto s = node.connect(2, "shm://echo"); !s) return s.print(), 1;
//   node.send(2, 0, "hello");
//   node.run();
//
// Guarantees for each message that send or commit accepted: it is handed to the destination's
// handler, in the order of sending and once per life of that process (to a later one again only
// with the mark `redelivered`), or on_undelivered is told once, with the outcome not_delivered
// (proven) or outcome_unknown.
//
// A node with bus id 0 is a visitor: it asks one node for something and goes. connect(0, address) names
// where that node is, whatever its id, and command(0, ...) asks it. A visitor does nothing else: it
// can't listen, send or be sent to. The node that it visits knows it only while it is there.
//
// A node runs in one of three ways: run() owns the thread; poll() is called once per frame and never
// blocks; or it rides on a libuv loop (node_options::loop).
//
// Threads: one for a node and everything that belongs to it; others send through sender().
// Handlers run from poll, run and shutdown alone (or from the loop), never inside one another; but
// close and the end of a node tell who still waits (on_ready, command) that it is closed, also from a
// handler, and must not throw then. Each may use any verb: send, close, disconnect, destroy the node. One
// may throw: poll, run and shutdown pass it on, and the message counts as handled; on a loop it stops the
// loop, as uv_stop does, and the node receives nothing more until rethrow(), poll, listen, connect or
// disconnect has passed it on.
// Fork: in a forked child a node is unusable; the parent's goes on undisturbed.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/command.hpp"
#include "atbus/detail/copy_payload.hpp"
#include "atbus/detail/direct_way.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/id_range.hpp"
#include "atbus/message.hpp"
#include "atbus/node_options.hpp"
#include "atbus/node_sender.hpp"
#include "atbus/node_stats.hpp"
#include "atbus/policies.hpp"
#include "atbus/status.hpp"

namespace atbus {

class node;

namespace detail {
struct node_access;
class node_core;
class node_state;
}  // namespace detail

// Writable bytes of one message, in the channel itself where that can be. Destroying it without a
// commit gives them up; so does any other verb of the node that sends, and poll. A commit of what was
// given up does nothing. It must not outlive its node.
class ATBUS_API node_slot {
 public:
  node_slot(node_slot&& other) noexcept
      : way_(std::exchange(other.way_, nullptr)),
        core_(std::exchange(other.core_, nullptr)),
        claim_(other.claim_),
        bytes_(other.bytes_),
        why_(other.why_) {}
  node_slot& operator=(node_slot&&) = delete;
  ~node_slot() {
    if (core_ != nullptr) [[unlikely]]
      give_up(*core_, claim_);
  }

  explicit operator bool() const noexcept { return way_ != nullptr || core_ != nullptr; }
  // Why there is none: an error of send.
  [[nodiscard]] status why() const noexcept { return why_; }
  // 8-byte aligned, not initialized.
  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  node_slot* operator->() noexcept { return this; }

  // Sends the first `length` bytes, by default all. More than that, or a second commit, does nothing.
  void commit() noexcept { commit(bytes_.size()); }
  void commit(std::size_t length) noexcept {
    if (length > bytes_.size())
      return;
    if (way_ == nullptr) [[unlikely]] {
      if (core_ != nullptr)
        commit(*std::exchange(core_, nullptr), claim_, length);
      return;
    }
    detail::direct_way& way = *std::exchange(way_, nullptr);
    if (way.claims == claim_)
      way.commit(bytes_.size(), length);
  }

 private:
  friend class node;
  struct core_claim {
    detail::node_core* core = nullptr;
    std::uint64_t number = 0;
    std::byte* at = nullptr;
    status why;
  };
  node_slot(detail::direct_way& way, mutable_bytes bytes) noexcept
      : way_(&way), claim_(way.claims), bytes_(bytes) {}
  node_slot(const core_claim& of, std::size_t length) noexcept
      : core_(of.core),
        claim_(of.number),
        bytes_(of.at, of.core != nullptr ? length : 0),
        why_(of.why) {}
  // Told all by value: a slot whose address nobody has lies in registers.
  static void commit(detail::node_core& core, std::uint64_t claim, std::size_t length) noexcept;
  static void give_up(detail::node_core& core, std::uint64_t claim) noexcept;

  // Where it was claimed: one of them, or none.
  detail::direct_way* way_ = nullptr;
  detail::node_core* core_ = nullptr;
  std::uint64_t claim_ = 0;  // its number
  mutable_bytes bytes_;
  status why_;
};

// co_await node.ready(id, timeout): ok once that node is connected, timed_out, or closed if the node
// that waits ends first. Works in any coroutine type.
class ATBUS_API ready_awaitable {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting);
  [[nodiscard]] status await_resume() const noexcept { return result_; }

 private:
  friend class node;
  ready_awaitable(detail::node_core* core, bus_id id, std::chrono::nanoseconds timeout) noexcept
      : core_(core), id_(id), timeout_(timeout) {}

  detail::node_core* core_;
  bus_id id_;
  std::chrono::nanoseconds timeout_;
  status result_;
};

class ATBUS_API node {
 public:
  // `id` is this node's; 0: a visitor. With wrong options nothing works: fault() says what is wrong, and
  // each verb that can fail does, with its code.
  explicit node(bus_id id, const node_options& options = {});
  node(node&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), way_(std::exchange(other.way_, nullptr)) {}
  node& operator=(node&& other) noexcept {
    if (this != &other) {
      close();
      state_ = std::exchange(other.state_, nullptr);
      way_ = std::exchange(other.way_, nullptr);
    }
    return *this;
  }
  ~node() { close(); }

  [[nodiscard]] bus_id id() const noexcept;
  // Of this life of the node: random.
  [[nodiscard]] std::uint64_t incarnation() const noexcept;

  // What is wrong with the options; none if the node can work.
  [[nodiscard]] error fault() const;

  // Listens there, any number of times. Errors: those of receiver::open; denied for TCP without a
  // token (node_options::allow_unauthenticated); closed.
  [[nodiscard]] error listen(std::string_view address);
  // Where it listens: with ports that were bound and names that were made up.
  [[nodiscard]] std::vector<std::string> addresses() const;

  // Node `id` is expected at this address, or at another one if this was called before. What is sent
  // there waits, up to node_options::send_buffer_size, until it is connected; while it is not, it is
  // dialled again. Errors: an address that can't be used; denied for TCP without a token; closed.
  [[nodiscard]] error connect(bus_id id, std::string_view address);
  // Ends that, and the links to that node, with a goodbye of a second at most. What was accepted for it and
  // is not settled is reported with the reason `closed`: what waits here at once, what is on its way when
  // its link has ended. None of it goes another way or waits for that node to come back; what is sent until
  // the links have ended does. Errors: not_found, closed.
  error disconnect(bus_id id);
  // What is sent to that node from now on goes by this, instead of by node_options::overflow and
  // message_deadline; whether it is there or not, and until it is said anew. Errors: invalid_argument
  // (this node's id, 0, a deadline below 0), closed.
  error set_policy(bus_id id, const peer_policy& policy);
  // The node that answered at node_options::parent; 0: none is connected.
  [[nodiscard]] bus_id parent() const noexcept;

  // Accepts a copy of the message. To a node without a link it goes over other nodes, by the parent or
  // a child (node_options::parent). Errors: no_route (none of these, and neither connect() nor the
  // directory names it), would_block (on_writable tells when to go on), not_connected (with
  // overflow_policy::disconnect: the link was full, and is broken off), message_too_large, closed,
  // not_supported (this is a visitor), out_of_memory. To its own id: delivered by the next poll.
  status send(bus_id to, std::uint32_t type, bytes_view bytes) noexcept {
    std::byte* const at = way_ != nullptr ? way_->claim(to, type, bytes.size()) : nullptr;
    if (at == nullptr) [[unlikely]]
      return send_elsewhere(to, type, bytes);
    detail::copy_payload(at, bytes.data(), bytes.size());
    way_->commit(bytes.size(), bytes.size());
    return {};
  }
  status send(bus_id to, std::uint32_t type, std::string_view text) noexcept {
    return send(to, type, as_bytes(text));
  }
  // The same, and what becomes of the message while no way to that node is known. Required ones wait
  // also for a node below this one that is not there yet.
  status send(bus_id to, std::uint32_t type, bytes_view bytes, delivery_policy policy) noexcept;
  status send(bus_id to, std::uint32_t type, std::string_view text,
              delivery_policy policy) noexcept {
    return send(to, type, as_bytes(text), policy);
  }
  // `length` writable bytes of a message; false and why() for the errors of send.
  [[nodiscard]] node_slot claim(bus_id to, std::uint32_t type, std::size_t length) noexcept {
    std::byte* const at = way_ != nullptr ? way_->claim(to, type, length) : nullptr;
    if (at == nullptr) [[unlikely]]
      return {claim_elsewhere(to, type, length), length};
    return {*way_, {at, length}};
  }

  // To all nodes whose ids are in the range and to which there is a way now, but this one: one copy for
  // each link, handed on by parents and children. Each node delivers it once at most. Not acknowledged,
  // not repeated: what finds a full link is lost there (node_stats::relay_drops), and a node whose
  // message_limit is lower drops it (broadcast_drops). Errors: no_route (no link leads to any),
  // would_block (none of these has room), message_too_large, closed.
  status broadcast(const id_range& to, std::uint32_t type, bytes_view bytes);
  // The same, and once `timeout` has passed (0 or less: with the next poll) calls with the nodes that have
  // said they got it.
  // would_block also if 64 such calls are outstanding.
  status broadcast(const id_range& to, std::uint32_t type, bytes_view bytes,
                   std::chrono::nanoseconds timeout,
                   std::function<void(const std::vector<bus_id>&)> reached);

  // Asks that node for something: a command's name, and its arguments; 1,024 words at most. `call` is
  // called exactly once if this is ok, never within it. It is told
  //   ok                and the reply
  //   command_failed    and why, in the words of the node that was asked
  //   unknown_command   that node has no such command
  //   timed_out         nothing is known: it may have been carried out, or be so later
  //   closed            this node ends
  //   any other error   why the command was not delivered, or may not have been (see undelivered)
  // Errors: those of send; invalid_argument (no words or too many, a negative timeout); would_block also
  // while 4,096 commands of this node's are not answered; on_writable tells when half of them are.
  status command(bus_id to, const command_words& words, std::chrono::nanoseconds timeout,
                 std::function<void(status, const command_reply&)> call);
  [[nodiscard]] command_awaitable command(bus_id to, command_words words,
                                          std::chrono::nanoseconds timeout);

  // For another thread: a lane of its own into this node. What is wrong is said by its send.
  [[nodiscard]] node_sender sender();

  void on_message(std::function<void(const message&)> handler);
  // Of all commands, or of those with that name, which it takes from the first. A command that no
  // handler is for is answered with unknown_command. An empty handler is none.
  void on_command(std::function<void(atbus::command&)> handler);
  void on_command(std::string_view name, std::function<void(atbus::command&)> handler);
  // Once for each accepted message that is not delivered or unknown; once for several of those that were
  // dropped for want of room, if there are many before a poll (undelivered::count). While there is no
  // handler they are counted in stats() alone.
  void on_undelivered(std::function<void(const undelivered&)> handler);
  void on_endpoint(std::function<void(const endpoint&, endpoint_event)> handler);
  // After a would_block of send, claim or command: there is room for that destination again.
  void on_writable(std::function<void(bus_id)> handler);
  // One line for people, without a newline. 1,000 wait for a poll at most; then one says how many were left
  // out.
  void on_log(std::function<void(std::string_view)> sink);

  // Calls once when node `id` is connected, or `timeout` has passed (timed_out; negative: never), or
  // this node ends (closed). Errors: closed; would_block while 4,096 calls wait.
  error on_ready(bus_id id, std::chrono::nanoseconds timeout, std::function<void(status)> call);
  [[nodiscard]] ready_awaitable ready(bus_id id, std::chrono::nanoseconds timeout) noexcept;

  // Sends, receives, and calls handlers; never blocks. Returns how many messages were delivered;
  // from a handler it does nothing and returns 0.
  std::size_t poll(const poll_limits& limits = {});
  // Sleeps until poll has something to do (ok) or `timeout` has passed (timed_out; negative: for
  // ever). Spins before, for at most 50 us, as long as that has been paying lately.
  status wait(std::chrono::nanoseconds timeout);
  // Polls and waits until stop() was called and what was accepted is settled, or
  // node_options::drain is over. Errors: timed_out (then not all of it is: shutdown reports what was
  // not delivered), closed (also when a handler destroys the node), invalid_argument (on a loop, or
  // from a handler), and that of fault().
  status run();
  void stop() noexcept;
  // Lets what was accepted settle for at most `deadline` (negative: for as long as it takes), says goodbye, ends the node, and reports
  // what was not delivered. Errors: timed_out (something was not), closed, invalid_argument (from a
  // handler).
  status shutdown(std::chrono::nanoseconds deadline);
  // What is queued, for sockets and over other nodes, leaves now, not with the next poll.
  void flush() noexcept;

  // For event loops, as in receiver.
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  // On a libuv loop: throws what a handler has thrown there, once. failed(): something waits to be.
  void rethrow();
  [[nodiscard]] bool failed() const noexcept;

  [[nodiscard]] node_stats stats() const noexcept;
  [[nodiscard]] std::vector<endpoint> endpoints() const;

  // Ends it at once: what is not settled is lost without a report. Idempotent; allowed in a handler.
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept;

 private:
  friend struct detail::node_access;
  explicit node(detail::node_state& state) noexcept;
  status send_elsewhere(bus_id to, std::uint32_t type, bytes_view bytes) noexcept;
  [[nodiscard]] node_slot::core_claim claim_elsewhere(bus_id to, std::uint32_t type,
                                                      std::size_t length) noexcept;

  detail::node_state* state_ = nullptr;
  detail::direct_way* way_ = nullptr;  // in *state_
};

}  // namespace atbus
