// What a node tells its user between messages.
#include <algorithm>
#include <utility>

#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

// For a log, between two polls.
constexpr std::size_t lines_max = 1000;
// Bytes of dropped messages whose reports wait for a poll, where a queue has less.
constexpr std::size_t untold_drops_least = std::size_t{1024} * 1024;

}  // namespace

outgoing_flow::sink node_core::reporter(peer& of) {
  return [this, id = of.id](held_message&& what, errc reason) {
    const bool unknown = what.outcome() == errc::outcome_unknown;
    if (what.flags != 0)
      command_undelivered(what, reason);
    else
      tell_undelivered(id, std::move(what), reason);
    ++(unknown ? stats_.outcome_unknown : stats_.not_delivered);
  };
}

// What is dropped for want of room is reported as often as something is sent, however seldom the node is
// polled. All else is reported from poll, or was held before.
void node_core::tell_undelivered(bus_id about, held_message&& what, errc reason) {
  if (!handlers_.on_undelivered && !(next_handlers_ && next_handlers_->on_undelivered))
    return;
  if (reason != errc::would_block)
    return tell({.kind = user_event::what::undelivered,
                 .about = about,
                 .message = std::move(what),
                 .reason = reason});
  const std::pair key{about, what.outcome()};
  if (const auto last = last_drops_.find(key); last != last_drops_.end()) {
    user_event& all = *last->second;
    untold_drops_ -= std::exchange(all.message.bytes, {}).size();
    all.message.number = what.number;
    all.message.type = what.type;
    ++all.count;
    return;
  }
  const std::size_t cost = sizeof(user_event) + what.bytes.size();
  const bool is_last =
      untold_drops_ + cost > std::max(options_.send_buffer_size(), untold_drops_least);
  const auto place = is_last ? last_drops_.emplace(key, nullptr).first : last_drops_.end();
  try {
    tell({.kind = user_event::what::undelivered, .about = about, .reason = reason, .count = 1});
  } catch (...) {
    if (is_last)
      last_drops_.erase(place);
    throw;
  }
  user_events_.back().message = std::move(what);
  untold_drops_ += cost;
  if (is_last)
    place->second = &user_events_.back();
}

void node_core::told_undelivered(const user_event& item) noexcept {
  if (item.reason != errc::would_block)
    return;
  untold_drops_ -= sizeof(user_event) + item.message.bytes.size();
  // The one that further ones were added to is behind all others of its key.
  const auto last = last_drops_.find({item.about, item.message.outcome()});
  if (last != last_drops_.end() && last->second == &user_events_.front())
    last_drops_.erase(last);
}

void node_core::tell_event(const peer& of, endpoint_event event) {
  if (is_client(of))
    return;
  tell({.kind = user_event::what::endpoint, .about = of.id, .event = event});
}

void node_core::log(std::string text) {
  if (untold_lines_ == lines_max) {
    ++lines_left_out_;
    return;
  }
  tell({.kind = user_event::what::log, .text = std::move(text)});
  ++untold_lines_;
}

void node_core::tell_line(const std::string& text) {
  --untold_lines_;
  if (!handlers_.on_log)
    return;
  const std::uint64_t left_out = untold_lines_ == 0 ? std::exchange(lines_left_out_, 0) : 0;
  handlers_.on_log(text);
  if (left_out != 0 && !closed_)
    handlers_.on_log(std::to_string(left_out) + " more lines were left out");
}

void node_core::log_cause(errc cause, std::string text) {
  if (lines_of_causes_.take(static_cast<std::uint64_t>(cause), on_.clock.now()) != 0)
    log(std::move(text));
}

void node_core::log_about(bus_id whom, std::string text) {
  const unsigned left = lines_of_nodes_.take(whom.value(), on_.clock.now());
  if (left == 1)
    text += " (more about it is left out for a minute)";
  if (left != 0)
    log(std::move(text));
}

void node_core::tell_events_and_catch() noexcept {
  for (std::size_t left = user_events_.size(); left != 0 && !closed_ && !user_events_.empty();
       --left) {
    try {
      tell_events();
      return;
    } catch (...) {
      thrown_ = thrown_ ? thrown_ : std::current_exception();
      end_poll();
    }
  }
}

bool node_core::tell_all_events() {
  // What handlers bring about is told in the next poll at the latest: this ends.
  for (std::size_t left = user_events_.size(); left != 0 && !user_events_.empty(); --left) {
    if (user_events_.front().kind == user_event::what::undelivered)
      told_undelivered(user_events_.front());
    user_event item = std::move(user_events_.front());
    user_events_.pop_front();
    switch (item.kind) {
      case user_event::what::undelivered:
        if (handlers_.on_undelivered) {
          handlers_.on_undelivered(undelivered{item.about, item.message.number, item.message.type,
                                               item.message.bytes, item.message.outcome(),
                                               item.reason, item.count});
        }
        break;
      case user_event::what::endpoint:
        if (handlers_.on_endpoint) {
          const peer* const of = find(item.about);
          const endpoint seen = of != nullptr ? view(*of) : endpoint{item.about, 0, {}, {}, false};
          handlers_.on_endpoint(seen, item.event);
        }
        break;
      case user_event::what::writable:
        if (handlers_.on_writable)
          handlers_.on_writable(item.about);
        break;
      case user_event::what::log:
        tell_line(item.text);
        break;
      case user_event::what::ready:
        --untold_calls_;
        item.call(item.result);
        break;
    }
    if (closed_)
      return false;
  }
  return true;
}

}  // namespace atbus::detail
