// What a node tells its user between messages, in order: undelivered messages, endpoint events, room to
// write, log lines, the ends of calls. Bounded also for a node that is not polled.
//
// Handlers run from tell_all() and tell_before_message() alone. One of them may close the node: nothing
// is told after that. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/command.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/message.hpp"
#include "core/log_limit.h"
#include "delivery/outgoing_flow.h"
#include "node/core/node_context.h"
#include "node/core/receive_path.h"

namespace atbus::detail {

struct node_handlers {
  std::function<void(const message&)> on_message;
  std::function<void(const undelivered&)> on_undelivered;
  std::function<void(const endpoint&, endpoint_event)> on_endpoint;
  std::function<void(command&)> on_command;
  std::map<std::string, std::function<void(command&)>, std::less<>> on_command_named;
  std::function<void(bus_id)> on_writable;
  std::function<void(std::string_view)> on_log;
};

class event_queue {
 public:
  event_queue(node_context& node, receive_path& receive) noexcept
      : node_(node), receive_(receive) {}

  // What the queue asks of the node's other parts; set once, before the first event.
  struct questions {
    std::function<endpoint(bus_id)> endpoint_of;
    // The message was a command or a reply: its call is made, instead of on_undelivered.
    std::function<void(const held_message&, errc)> command_undelivered;
  };
  void ask(questions whom) { ask_ = std::move(whom); }

  // Sets one of the handlers. What is set while a handler runs holds from the next poll on; all others keep
  // their state.
  template <class Handler>
  void set(Handler node_handlers::*which, Handler handler) {
    if (polling_)
      changes_.push_back([this, which, handler = std::move(handler)]() mutable {
        handlers_.*which = std::move(handler);
      });
    else
      handlers_.*which = std::move(handler);
  }
  void set_command(std::string name, std::function<void(command&)> handler);
  // To be changed between polls only.
  [[nodiscard]] node_handlers& handlers() noexcept { return handlers_; }
  // A poll begins and ends.
  void begin_poll() noexcept { polling_ = true; }
  void end_poll() noexcept;
  [[nodiscard]] bool is_polling() const noexcept { return polling_; }

  // Not of a client.
  void tell_endpoint(bus_id whom, endpoint_event change);
  void tell_writable(bus_id whom);
  void tell_undelivered(bus_id about, held_message&& what, errc reason);
  // Calls back with `how`. `untold_calls()` of them wait.
  void tell_call(std::function<void(status)> call, status how);
  [[nodiscard]] std::size_t untold_calls() const noexcept { return untold_calls_; }
  // Reports what `of` does not get, and counts it.
  [[nodiscard]] outgoing_flow::sink reporter(peer& of);

  void log(std::string text);
  // What peers bring about as often as they like, proven or not: once a second for each cause.
  void log_cause(errc cause, std::string text);
  // What one node brings about that has the token: 60 lines a minute.
  void log_about(bus_id whom, std::string text);

  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  // False: a handler has closed the node.
  bool tell_all() { return events_.empty() || tell_those_here(); }
  // Tells all that comes before a message that a link has handed over. False: a handler has closed the
  // node or disconnected that session, so the message must not be told. What a handler throws is kept:
  // rethrow() throws it once the message has been told.
  bool tell_before_message(const session* by) {
    if (!events_.empty()) [[unlikely]]
      tell_and_catch();
    return !node_.closed && (by == nullptr || by->stage != session_stage::dropped);
  }
  void rethrow() {
    if (thrown_) [[unlikely]]
      std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
  // The node ends: calls that wait are made, all else is dropped.
  void close() noexcept;

 private:
  struct event {
    enum class what : std::uint8_t { undelivered, endpoint, writable, log, call };
    what kind = what::log;
    bus_id about{};
    held_message message{};
    errc reason = errc::ok;
    endpoint_event change = endpoint_event::connected;
    std::string text{};
    std::function<void(status)> call{};
    status result{};
    std::uint64_t count = 1;  // messages, of undelivered
  };

  void add(event what);
  bool tell_those_here();
  void tell_and_catch() noexcept;
  void tell_line(const std::string& text);
  // That event is the first one in the queue, and leaves it.
  void took_undelivered(const event& item) noexcept;

  node_context& node_;
  receive_path& receive_;
  questions ask_;
  node_handlers handlers_;
  std::vector<std::function<void()>> changes_;  // of handlers, for the end of this poll
  bool polling_ = false;

  std::deque<event> events_;
  std::exception_ptr thrown_;  // by the handler of an event before a message
  // Of messages that were dropped for want of room: what their events take, in bytes; and, once that is
  // too much, the last event of each destination and outcome, to which further drops are added.
  std::size_t untold_drops_ = 0;
  std::map<std::pair<bus_id, errc>, event*> last_drops_;
  std::size_t untold_lines_ = 0;
  std::uint64_t lines_left_out_ = 0;
  std::size_t untold_calls_ = 0;
  log_limit lines_of_causes_{std::chrono::seconds{1}, 1};
  log_limit lines_of_nodes_{std::chrono::minutes{1}, 60};
};

}  // namespace atbus::detail
