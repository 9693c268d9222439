/// @file
/// Commands: a node asks another node to do something, in words, and gets a reply.
///
/// ```cpp
/// node.on_command("reload", [](atbus::command& c) { c.reply(reload(c.arguments())); });
///
/// node.command(2, {"reload", "maps"}, 2s, [](atbus::status s, const atbus::command_reply& r) {
///   s ? show(r.text()) : s.print();
/// });
/// auto r = co_await node.command(2, {"reload", "maps"}, 2s);     // a result<command_reply>
/// ```
///
/// A command travels like a message: in order with the messages to that node, and queued while
/// there is no link. The asking node gets exactly one answer: the reply or an error.
///
/// Threads: the node's own. Errors: see node::command and command::reply.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
class command_exchange;
class node_core;
}  // namespace detail

/// The words of a command or a reply: {"reload", "maps"}, one text, or a vector. Owns copies of
/// them.
class command_words {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  /// Copies the words. Implicit, so that a command can be written as {"reload", "maps"}.
  template <std::convertible_to<std::string_view>... Words>
  command_words(const Words&... words) {
    words_.reserve(sizeof...(words));
    (words_.emplace_back(std::string_view{words}), ...);
  }
  /// Takes the words over from a vector.
  command_words(std::vector<std::string> words) noexcept : words_(std::move(words)) {}
  // NOLINTEND(google-explicit-constructor)

  /// All words, the name of a command first.
  [[nodiscard]] const std::vector<std::string>& all() const noexcept { return words_; }

 private:
  std::vector<std::string> words_;
};

/// The reply of the node that was asked; for a failed command, the reason.
class command_reply {
 public:
  command_reply() = default;
  /// Makes a reply of these values.
  explicit command_reply(std::vector<std::string> values) noexcept : values_(std::move(values)) {}

  /// All values, in the order of command::reply.
  [[nodiscard]] const std::vector<std::string>& values() const noexcept { return values_; }
  /// The first value; empty if there is none.
  [[nodiscard]] std::string_view text() const noexcept {
    return values_.empty() ? std::string_view{} : std::string_view{values_.front()};
  }

 private:
  std::vector<std::string> values_;
};

/// A command from another node, which this node has to answer. Destroying it without an answer
/// sends command_failed. To answer after the handler has returned, move it out of the handler
/// (`detach`). A command may outlive its node; its calls then have no effect. Threads: the node's
/// own.
class ATBUS_API command {
 public:
  /// Takes the command over; `other` is empty afterwards.
  command(command&&) noexcept = default;
  /// Answers the current command with command_failed if it has no answer yet, then takes `other`
  /// over.
  command& operator=(command&& other) noexcept;
  ~command() { give_up(); }

  /// The node that asks; 0 for a client.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The first word; empty if the command was moved away.
  [[nodiscard]] std::string_view name() const noexcept {
    return words_.empty() ? std::string_view{} : std::string_view{words_.front()};
  }
  /// The words after the name. Valid as long as this command is.
  [[nodiscard]] std::span<const std::string> arguments() const noexcept {
    return std::span{words_}.subspan(words_.empty() ? 0 : 1);
  }
  /// True if an earlier incarnation of this node may have executed the command.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }

  /// Sends the reply. Errors: would_block (the queue to that node is full: try again),
  /// message_too_large (for this node or the asking one), invalid_argument (more than 1,024 values,
  /// or already answered), peer_closed (the asking process has ended), closed. After an error the
  /// command still has to be answered.
  status reply(const command_words& values) { return answer(errc::ok, values); }
  /// Answers command_failed, with these words as the reason. Errors: as reply.
  status fail(const command_words& why) { return answer(errc::command_failed, why); }

  /// Moves the command out, to be answered later; this object is empty afterwards.
  [[nodiscard]] command detach() noexcept { return std::move(*this); }

 private:
  friend class detail::command_exchange;
  command(std::shared_ptr<detail::command_exchange*> node, bus_id source, std::uint64_t instance,
          std::uint64_t number, std::vector<std::string> words, bool redelivered) noexcept
      : node_(std::move(node)),
        source_(source),
        incarnation_(instance),
        number_(number),
        words_(std::move(words)),
        redelivered_(redelivered) {}
  status answer(errc how, const command_words& values);
  void give_up() noexcept;

  std::shared_ptr<detail::command_exchange*> node_;  // to answer through; null once answered
  bus_id source_;
  std::uint64_t incarnation_;  // incarnation of the source
  std::uint64_t number_;
  std::vector<std::string> words_;
  bool redelivered_;
};

/// What `co_await node.command(...)` waits for: the reply, or the error. Works in any coroutine
/// type; a coroutine that is destroyed while it waits is not resumed.
class ATBUS_API command_awaitable {
 public:
  command_awaitable(const command_awaitable&) = delete;
  command_awaitable& operator=(const command_awaitable&) = delete;
  ~command_awaitable() {
    if (self_ != nullptr)
      *self_ = nullptr;
  }

  /// Always false: the coroutine waits for the answer.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Sends the command. False: it was refused, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting);
  /// The reply, or the error that node::command returned or passed to its handler.
  [[nodiscard]] result<command_reply> await_resume();

 private:
  friend class node;
  command_awaitable(detail::node_core* core, bus_id to, command_words words,
                    std::chrono::nanoseconds timeout) noexcept
      : core_(core), to_(to), words_(std::move(words)), timeout_(timeout) {}

  detail::node_core* core_;
  bus_id to_;
  command_words words_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<command_awaitable*> self_;  // for the call, which may come later than the end
  status how_;
  command_reply reply_;
};

}  // namespace atbus
