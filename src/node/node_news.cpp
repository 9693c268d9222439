// What a node tells its user between messages.
#include <utility>

#include "node/node_core.h"

namespace atbus::detail {

outgoing_flow::sink node_core::reporter(peer& of) {
  return [this, id = of.id](const held_message& what, errc reason) {
    ++(what.outcome() == errc::outcome_unknown ? stats_.outcome_unknown : stats_.not_delivered);
    if (what.flags != 0)
      return command_undelivered(what, reason);
    tell({.kind = news::what::undelivered, .about = id, .message = what, .reason = reason});
  };
}

void node_core::tell_event(const peer& of, endpoint_event event) {
  if (is_guest(of))
    return;
  tell({.kind = news::what::endpoint, .about = of.id, .event = event});
}

void node_core::log(std::string text) {
  tell({.kind = news::what::log, .text = std::move(text)});
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

bool node_core::tell_all_news() {
  // What handlers bring about is told in the next poll at the latest: this ends.
  for (std::size_t left = news_.size(); left != 0 && !news_.empty(); --left) {
    news item = std::move(news_.front());
    news_.pop_front();
    switch (item.kind) {
      case news::what::undelivered:
        if (handlers_.on_undelivered) {
          handlers_.on_undelivered(undelivered{item.about, item.message.number, item.message.type,
                                               item.message.bytes, item.message.outcome(),
                                               item.reason});
        }
        break;
      case news::what::endpoint:
        if (handlers_.on_endpoint) {
          const peer* const of = find(item.about);
          const endpoint seen = of != nullptr ? view(*of) : endpoint{item.about, 0, {}, {}, false};
          handlers_.on_endpoint(seen, item.event);
        }
        break;
      case news::what::writable:
        if (handlers_.on_writable)
          handlers_.on_writable(item.about);
        break;
      case news::what::log:
        if (handlers_.on_log)
          handlers_.on_log(item.text);
        break;
      case news::what::ready:
        item.call(item.result);
        break;
    }
    if (closed_)
      return false;
  }
  return true;
}

}  // namespace atbus::detail
