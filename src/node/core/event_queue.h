// What a node tells its user between messages, in order: undelivered messages, endpoint events, room to
// write, log lines, the ends of calls. Bounded also for a node that is not polled.
//
// An event without payload finds its place also while there is no memory, as a rule: whoever brings it about may
// have changed its state already. 64 places are kept for that, and filled again with each poll.
//
// Handlers run from tell_all() and tell_before_message() alone. One of them may close the node: nothing
// is told after that. One thread.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/blob.hpp"
#include "atbus/command.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/message.hpp"
#include "atbus/request.hpp"
#include "core/log_limit.h"
#include "delivery/outgoing_flow.h"
#include "node/core/node_context.h"
#include "node/core/receive_path.h"

namespace atbus::detail {

// Of messages of one type; false: the message is no value of it.
using typed_handler = std::function<bool(const message&)>;

struct node_handlers {
  std::function<void(const message&)> on_message;
  // While there are any: on_message looks for the one of a message's type, then takes on_other_message.
  std::map<std::uint32_t, typed_handler> on_typed;
  std::function<void(const message&)> on_other_message;
  std::function<void(const undelivered&)> on_undelivered;
  std::function<void(const endpoint&, endpoint_event)> on_endpoint;
  std::function<void(command&)> on_command;
  std::map<std::string, std::function<void(command&)>, std::less<>> on_command_named;
  std::function<void(request&)> on_request;
  std::map<std::uint32_t, std::function<void(request&)>> on_request_typed;
  std::map<std::uint32_t, std::function<void(incoming_blob&)>> on_blob;  // none is empty
  std::function<void(bus_id)> on_writable;
  std::function<void(std::string_view)> on_log;

  // Null: there is none for that type.
  [[nodiscard]] const std::function<void(request&)>* request_handler(
      std::uint32_t type) const noexcept {
    const auto typed = on_request_typed.find(type);
    if (typed != on_request_typed.end() && typed->second)
      return &typed->second;
    return on_request ? &on_request : nullptr;
  }
};

class event_queue {
 public:
  event_queue(node_context& node, receive_path& receive) : node_(node), receive_(receive) {
    fill_spare();
  }

  // What the queue asks of the node's other parts; set once, before the first event.
  struct questions {
    std::function<endpoint(bus_id)> endpoint_of;
    // The message was not the user's: its call is made, instead of on_undelivered.
    std::function<void(bus_id, const held_message&, errc)> exchange_undelivered;
    // Null: it is not known, or forgotten.
    std::function<peer*(bus_id)> peer_of = [](bus_id) { return nullptr; };
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
  void set_request(std::uint32_t type, std::function<void(request&)> handler);
  // Empty: blobs of that type are refused.
  void set_blob(std::uint32_t type, std::function<void(incoming_blob&)> handler);
  void set_message(std::function<void(const message&)> handler);
  // `tag` is that of the C++ type. Empty: there is none for that number any more. False: the number is
  // another type's.
  bool set_typed(std::uint32_t type, const void* tag, typed_handler handler);
  void count_malformed(bus_id source, std::uint32_t type) noexcept;
  // To be changed between polls only.
  [[nodiscard]] node_handlers& handlers() noexcept { return handlers_; }
  // A poll begins and ends.
  void begin_poll() noexcept {
    polling_ = true;
    fill_spare();
  }
  void end_poll() noexcept;
  [[nodiscard]] bool is_polling() const noexcept { return polling_; }

  // Not of a client.
  void tell_endpoint(bus_id whom, endpoint_event change);
  void tell_writable(bus_id whom);
  void tell_undelivered(bus_id about, held_message&& what, errc reason);
  // So many messages to that peer are lost for want of memory; which of them have arrived is not known.
  void tell_lost(const peer& of, std::uint64_t messages) noexcept;
  // Calls back with `how`. `untold_calls()` of them wait.
  void tell_call(std::function<void(status)> call, status how);
  [[nodiscard]] std::size_t untold_calls() const noexcept { return untold_calls_; }
  // Counts what a node does not get, and reports it. If it throws, which is std::bad_alloc, the message is as it
  // was, and not counted.
  void report(bus_id about, held_message&& what, errc reason);
  // Does that, but never throws: what there is no memory to report is counted.
  [[nodiscard]] outgoing_flow::sink reporter(bus_id about);

  void log(std::string text);
  // What peers bring about as often as they like, proven or not: once a second for each cause.
  void log_cause(errc cause, std::string text);
  // What one node brings about that has the token: 60 lines a minute.
  void log_about(bus_id whom, std::string text);

  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  // False: a handler has closed the node.
  bool tell_all() { return events_.empty() || tell_those_here(false); }
  // The same, as far as the poll has time.
  bool tell_in_time() { return events_.empty() || tell_those_here(true); }
  // Tells all that comes before a message that a link has handed over. False: a handler has closed the
  // node or disconnected that session, so the message must not be told. What a handler throws is kept:
  // rethrow() throws it once the message has been told.
  bool tell_before_message(const session* by) {
    if (!events_.empty()) [[unlikely]]
      tell_and_catch();
    return !node_.closed && (by == nullptr || by->stage != session_stage::dropped);
  }
  // A coroutine has thrown that nobody waits for.
  void keep_exception(std::exception_ptr thrown) noexcept {
    thrown_ = thrown_ ? thrown_ : std::move(thrown);
    node_.end_poll();
  }
  // Does that, also once the node is gone: then it does nothing.
  [[nodiscard]] std::function<void(std::exception_ptr)> exception_sink() const {
    return [queue = self_](std::exception_ptr thrown) {
      if (*queue != nullptr)
        (*queue)->keep_exception(std::move(thrown));
    };
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

  // Of a handler for one name or number.
  template <class Map>
  void set_in(Map node_handlers::*map, typename Map::key_type key,
              typename Map::mapped_type handler);
  // At once, or at the end of the poll that runs.
  template <class Change>
  void change(Change what);
  void tell_message(const message& what);
  void add(event what);
  // Places of events, for when there is no memory for one.
  void fill_spare() noexcept;
  // Takes the first event out; its place is kept for another one.
  event take_first() noexcept;
  // `in_doubt`: the number of one whose destination may say more of it; 0: it won't.
  void count_undelivered(bus_id about, bool unknown, std::uint64_t in_doubt) noexcept;
  void say_unreported(bus_id about) noexcept;
  bool tell_those_here(bool in_time);
  void tell_and_catch() noexcept;
  void tell_line(const std::string& text);
  // That event is the first one in the queue, and leaves it.
  void took_undelivered(const event& item) noexcept;

  node_context& node_;
  receive_path& receive_;
  std::shared_ptr<event_queue*> self_ = std::make_shared<event_queue*>(this);  // null once closed
  questions ask_;
  node_handlers handlers_;
  std::vector<std::function<void()>> changes_;  // of handlers, for the end of this poll
  bool polling_ = false;
  std::map<std::uint32_t, const void*> typed_tags_;  // of the types in on_typed

  std::list<event> events_;    // an event stays where it is: last_drops_ points to some
  std::list<event> spare_;     // empty ones
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
