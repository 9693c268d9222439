#include "delivery/outgoing_flow.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace atbus::detail {

void outgoing_flow::drop_first() noexcept {
  bytes_of(held_.front()) -= cost(held_.front().bytes.size());
  held_.pop_front();
}

outgoing_flow::messages::iterator outgoing_flow::move_out(messages::iterator at,
                                                          messages& to) noexcept {
  bytes_of(*at) -= cost(at->bytes.size());
  const auto next = std::next(at);
  to.splice(to.end(), held_, at);
  return next;
}

void outgoing_flow::hold(held_message message) {
  messages one;
  one.push_back(std::move(message));
  hold(std::move(one));
}

void outgoing_flow::hold(messages&& one) noexcept {
  assert(one.size() == 1);
  assert(held_.empty() || held_.back().number < one.front().number);
  bytes_of(one.front()) += cost(one.front().bytes.size());
  held_.splice(held_.end(), one);
}

void outgoing_flow::path_lost(messages left) noexcept {
  assert(left.empty() || held_.empty() || left.back().number < held_.front().number);
  for (const held_message& message : left)
    bytes_of(message) += cost(message.bytes.size());
  held_.splice(held_.begin(), left);
}

bool outgoing_flow::is_possible(const flow_position& position, bool remembered) const noexcept {
  if (position.session == 0 || position.last > accepted_)
    return false;
  return !remembered || std::ranges::none_of(held_, [&](const held_message& message) {
    return message.number > last_sent_ && message.number <= position.last;
  });
}

bool outgoing_flow::resume(const node_instance& instance, const flow_position& position,
                           restart_policy policy, const sink& report) {
  const bool same_incarnation = instance == sent_to_;
  const bool remembered = same_incarnation && position.session == session_;
  if (!is_possible(position, remembered))
    return false;
  sent_to_ = instance;
  session_ = position.session;
  last_sent_ = position.last;
  expected_ = 0;
  if (remembered) {
    while (!held_.empty() && held_.front().number <= position.last)
      drop_first();  // delivered
    for (held_message& message : held_)
      message.may_have_arrived = message.may_be_inherited = false;
    return true;
  }
  messages given_up;
  for (auto at = held_.begin(); at != held_.end();) {
    if (!at->may_have_arrived) {
      ++at;
    } else if (same_incarnation || policy == restart_policy::report || at->may_be_inherited) {
      // The same incarnation has forgotten its position, and would take this message for a new one. An
      // incarnation that has inherited the message would get it twice.
      at = move_out(at, given_up);
    } else {
      at->may_have_arrived = false;
      at->redelivered = true;
      ++at;
    }
  }
  for (held_message& message : given_up)
    report(std::move(message), same_incarnation ? errc::superseded : errc::peer_closed);
  return true;
}

void outgoing_flow::expire(std::chrono::nanoseconds now, const sink& report) {
  messages late;
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->deadline.count() != 0 && at->deadline <= now)
      at = move_out(at, late);
    else
      ++at;
  }
  for (held_message& message : late)
    report(std::move(message), errc::timed_out);
}

std::optional<std::chrono::nanoseconds> outgoing_flow::earliest_deadline() const noexcept {
  std::optional<std::chrono::nanoseconds> earliest;
  for (const held_message& message : held_) {
    if (message.deadline.count() != 0 && (!earliest || message.deadline < *earliest))
      earliest = message.deadline;
  }
  return earliest;
}

void outgoing_flow::drop(messages::iterator which, errc reason, const sink& report) {
  assert(which != held_.end());
  messages out;
  const auto next = move_out(which, out);
  try {
    report(std::move(out.front()), reason);
  } catch (...) {
    bytes_of(out.front()) += cost(out.front().bytes.size());
    held_.splice(next, out);
    throw;
  }
}

void outgoing_flow::drop_oldest(errc reason, const sink& report) {
  drop(held_.begin(), reason, report);
}

void outgoing_flow::drop_oldest_by_policy(errc reason, const sink& report) {
  drop(std::ranges::find(held_, false, &held_message::exempt), reason, report);
}

void outgoing_flow::abandon(errc reason, const sink& report) {
  messages all = std::exchange(held_, {});
  held_bytes_ = exempt_bytes_ = 0;
  for (held_message& message : all)
    report(std::move(message), reason);
}

}  // namespace atbus::detail
