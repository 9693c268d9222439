#include "node/core/event_queue.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace atbus::detail {
namespace {

// Lines for a log, between two polls.
constexpr std::size_t lines_max = 1000;
// Bytes of dropped messages whose events wait for a poll, where a send buffer has less.
constexpr std::size_t untold_drops_least = std::size_t{1024} * 1024;
// Empty places of events: those that are kept for a lack of memory, and with those that are used again.
constexpr std::size_t spare_least = 64;
constexpr std::size_t spare_most = 128;

// Of a message that its destination may have refused, and may say so yet; 0: there won't be a word about it.
std::uint64_t refusable_number(const held_message& what) noexcept {
  return what.may_have_arrived && (what.flags & exchange_flags) == 0 ? what.number : 0;
}

}  // namespace

template <class Change>
void event_queue::change(Change what) {
  if (polling_)
    changes_.emplace_back(std::move(what));
  else
    what();
}

template <class Map>
void event_queue::set_in(Map node_handlers::*map, typename Map::key_type key,
                         typename Map::mapped_type handler) {
  Map one;
  one.emplace(std::move(key), std::move(handler));
  change([this, map, one = std::move(one)]() mutable {
    (handlers_.*map).erase(one.begin()->first);
    (handlers_.*map).merge(one);  // takes no memory
  });
}

void event_queue::set_command(std::string name, std::function<void(command&)> handler) {
  set_in(&node_handlers::on_command_named, std::move(name), std::move(handler));
}

void event_queue::set_request(std::uint32_t type, std::function<void(request&)> handler) {
  set_in(&node_handlers::on_request_typed, type, std::move(handler));
}

void event_queue::set_blob(std::uint32_t type, std::function<void(incoming_blob&)> handler) {
  if (handler)
    return set_in(&node_handlers::on_blob, type, std::move(handler));
  change([this, type] { handlers_.on_blob.erase(type); });
}

void event_queue::set_message(std::function<void(const message&)> handler) {
  change([this, handler = std::move(handler)]() mutable {
    (handlers_.on_typed.empty() ? handlers_.on_message : handlers_.on_other_message) =
        std::move(handler);
  });
}

bool event_queue::set_typed(std::uint32_t type, const void* tag, typed_handler handler) {
  if (const auto known = typed_tags_.find(type); known != typed_tags_.end() && known->second != tag)
    return false;
  const bool ends = !handler;
  std::map<std::uint32_t, typed_handler> one;
  one.emplace(type, std::move(handler));
  change([this, ends, one = std::move(one)]() mutable {
    if (handlers_.on_typed.empty() && !ends) {
      handlers_.on_other_message = std::move(handlers_.on_message);
      handlers_.on_message = [this](const message& what) { tell_message(what); };
    }
    const bool was_there = handlers_.on_typed.erase(one.begin()->first) != 0;
    if (!ends)
      handlers_.on_typed.merge(one);  // takes no memory
    else if (was_there && handlers_.on_typed.empty())
      handlers_.on_message = std::move(handlers_.on_other_message);
  });
  if (ends)
    typed_tags_.erase(type);
  else
    typed_tags_.emplace(type, tag);
  return true;
}

void event_queue::tell_message(const message& what) {
  const auto typed = handlers_.on_typed.find(what.type());
  if (typed == handlers_.on_typed.end()) {
    if (handlers_.on_other_message)
      handlers_.on_other_message(what);
  } else if (!typed->second(what)) {
    count_malformed(what.source(), what.type());
  }
}

void event_queue::count_malformed(bus_id source, std::uint32_t type) noexcept {
  ++node_.stats.malformed;
  try {
    log_cause(errc::malformed, "a message of type " + std::to_string(type) + " from " +
                                   source.to_string() + " is no value of that type");
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

void event_queue::end_poll() noexcept {
  polling_ = false;
  for (const auto changes = std::exchange(changes_, {}); const auto& change : changes)
    change();
}

void event_queue::add(event what) {
  receive_.close();  // the event comes before the next message
  std::list<event> made;
  try {
    if (spare_.size() <= spare_least)
      made.emplace_back();
  } catch (const std::bad_alloc&) {
    if (spare_.empty())
      throw;
  }
  if (made.empty())
    made.splice(made.end(), spare_, spare_.begin());
  made.front() = std::move(what);
  events_.splice(events_.end(), made);
}

void event_queue::fill_spare() noexcept {
  try {
    while (spare_.size() < spare_least)
      spare_.emplace_back();
  } catch (const std::bad_alloc&) {  // there may be memory at the next poll
  }
}

event_queue::event event_queue::take_first() noexcept {
  event first = std::exchange(events_.front(), event{});
  if (spare_.size() < spare_most)
    spare_.splice(spare_.begin(), events_, events_.begin());
  else
    events_.pop_front();
  return first;
}

void event_queue::tell_endpoint(bus_id whom, endpoint_event change) {
  if (whom != bus_id{} || node_.is_client())
    add({.kind = event::what::endpoint, .about = whom, .change = change});
}

void event_queue::tell_writable(bus_id whom) {
  add({.kind = event::what::writable, .about = whom});
  if (peer* const of = ask_.peer_of(whom); of != nullptr)
    of->owes_writable = true;
}

void event_queue::tell_call(std::function<void(status)> call, status how) {
  add({.kind = event::what::call, .call = std::move(call), .result = how});
  ++untold_calls_;
}

void event_queue::report(bus_id about, held_message&& what, errc reason) {
  const bool unknown = what.outcome() == errc::outcome_unknown;
  const std::uint64_t in_doubt = refusable_number(what);
  if ((what.flags & exchange_flags) != 0)
    ask_.exchange_undelivered(about, what, reason);
  else
    tell_undelivered(about, std::move(what), reason);
  count_undelivered(about, unknown, in_doubt);
}

void event_queue::count_undelivered(bus_id about, bool unknown, std::uint64_t in_doubt) noexcept {
  ++(unknown ? node_.stats.outcome_unknown : node_.stats.not_delivered);
  peer* const of = ask_.peer_of(about);
  if (of == nullptr)
    return;
  ++of->counts.undelivered;
  if (in_doubt != 0)
    of->reported.add(in_doubt);
}

outgoing_flow::sink event_queue::reporter(bus_id about) {
  return [this, about](held_message&& what, errc reason) noexcept {
    const bool unknown = what.outcome() == errc::outcome_unknown;
    const std::uint64_t in_doubt = refusable_number(what);
    try {
      report(about, std::move(what), reason);
    } catch (const std::bad_alloc&) {
      count_undelivered(about, unknown, in_doubt);
      say_unreported(about);
    }
  };
}

void event_queue::say_unreported(bus_id about) noexcept {
  try {
    log_cause(errc::out_of_memory, "a message to " + about.to_string() +
                                       " is counted as undelivered but not reported: no memory");
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

// What is dropped for want of room is reported as often as something is sent, however seldom the node is
// polled. All else is reported from poll, or was held before.
void event_queue::tell_undelivered(bus_id about, held_message&& what, errc reason) {
  if (!handlers_.on_undelivered && changes_.empty())
    return;
  if ((what.flags & flag_traced) != 0 && what.bytes.size() >= trace_context::size)
    what.bytes.resize(what.bytes.size() - trace_context::size);
  if (reason != errc::would_block) {
    add({.kind = event::what::undelivered, .about = about, .reason = reason});
    events_.back().message = std::move(what);  // now that nothing throws any more
    return;
  }
  const std::pair key{about, what.outcome()};
  if (const auto last = last_drops_.find(key); last != last_drops_.end()) {
    event& all = *last->second;
    untold_drops_ -= std::exchange(all.message.bytes, {}).size();
    all.message.number = what.number;
    all.message.type = what.type;
    ++all.count;
    return;
  }
  const std::size_t cost = sizeof(event) + what.bytes.size();
  const bool is_last =
      untold_drops_ + cost > std::max(node_.options.send_buffer_size(), untold_drops_least);
  const auto place = is_last ? last_drops_.emplace(key, nullptr).first : last_drops_.end();
  try {
    add({.kind = event::what::undelivered, .about = about, .reason = reason, .count = 1});
  } catch (...) {
    if (is_last)
      last_drops_.erase(place);
    throw;
  }
  events_.back().message = std::move(what);
  untold_drops_ += cost;
  if (is_last)
    place->second = &events_.back();
}

void event_queue::tell_lost(const peer& of, std::uint64_t messages) noexcept {
  node_.stats.outcome_unknown += messages;
  try {
    log_cause(errc::out_of_memory, std::to_string(messages) + " messages to " + of.id.to_string() +
                                       " are lost with their link: no memory to keep them");
    if (handlers_.on_undelivered || !changes_.empty()) {
      event item{.kind = event::what::undelivered,
                 .about = of.id,
                 .reason = errc::out_of_memory,
                 .count = messages};
      item.message.may_have_arrived = true;
      add(std::move(item));
    }
  } catch (const std::bad_alloc&) {  // they are counted
  }
}

void event_queue::took_undelivered(const event& item) noexcept {
  if (item.reason != errc::would_block)
    return;
  untold_drops_ -= sizeof(event) + item.message.bytes.size();
  // The event that further drops were added to is behind all others of its key.
  const auto last = last_drops_.find({item.about, item.message.outcome()});
  if (last != last_drops_.end() && last->second == &events_.front())
    last_drops_.erase(last);
}

void event_queue::log(std::string text) {
  if (untold_lines_ == lines_max) {
    ++lines_left_out_;
    return;
  }
  add({.kind = event::what::log, .text = std::move(text)});
  ++untold_lines_;
}

void event_queue::log_cause(errc cause, std::string text) {
  if (lines_of_causes_.take(static_cast<std::uint64_t>(cause), node_.now()) != 0)
    log(std::move(text));
}

void event_queue::log_about(bus_id whom, std::string text) {
  const unsigned left = lines_of_nodes_.take(whom.value(), node_.now());
  if (left == 1)
    text += " (more about it is left out for a minute)";
  if (left != 0)
    log(std::move(text));
}

void event_queue::tell_line(const std::string& text) {
  --untold_lines_;
  if (!handlers_.on_log)
    return;
  const std::uint64_t left_out = untold_lines_ == 0 ? std::exchange(lines_left_out_, 0) : 0;
  handlers_.on_log(text);
  if (left_out != 0 && !node_.closed)
    handlers_.on_log(std::to_string(left_out) + " more lines were left out");
}

void event_queue::tell_and_catch() noexcept {
  for (std::size_t left = events_.size(); left != 0 && !node_.closed && !events_.empty(); --left) {
    try {
      tell_all();
      return;
    } catch (...) {
      thrown_ = thrown_ ? thrown_ : std::current_exception();
      node_.end_poll();
    }
  }
}

bool event_queue::tell_those_here(bool in_time) {
  // What handlers bring about is told in the next poll at the latest: this ends.
  for (std::size_t left = events_.size(); left != 0 && !events_.empty(); --left) {
    std::optional<endpoint> whom;  // first, because it takes memory: the event stays without
    if (events_.front().kind == event::what::endpoint && handlers_.on_endpoint)
      whom = ask_.endpoint_of(events_.front().about);
    if (events_.front().kind == event::what::undelivered)
      took_undelivered(events_.front());
    const event item = take_first();
    switch (item.kind) {
      case event::what::undelivered:
        if (handlers_.on_undelivered) {
          handlers_.on_undelivered(undelivered{item.about, item.message.number, item.message.type,
                                               item.message.bytes, item.message.outcome(),
                                               item.reason, item.count});
        }
        break;
      case event::what::endpoint:
        if (whom)
          handlers_.on_endpoint(*whom, item.change);
        break;
      case event::what::writable:
        if (peer* const of = ask_.peer_of(item.about); of != nullptr)
          of->owes_writable = false;
        if (handlers_.on_writable)
          handlers_.on_writable(item.about);
        break;
      case event::what::log:
        tell_line(item.text);
        break;
      case event::what::call:
        --untold_calls_;
        item.call(item.result);
        break;
    }
    if (node_.closed)
      return false;
    if (in_time && left % poll_progress::per_look == 0 && node_.is_late())
      break;
  }
  return true;
}

void event_queue::close() noexcept {
  *self_ = nullptr;
  last_drops_.clear();
  for (auto untold = std::exchange(events_, {}); const event& item : untold) {
    if (item.kind == event::what::call && !node_.is_forked())
      item.call(item.result);
  }
}

}  // namespace atbus::detail
