#include "delivery/outgoing_flow.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace atbus::detail {

void outgoing_flow::remove(std::deque<held_message>::iterator at) noexcept {
  held_bytes_ -= at->bytes.size();
  held_.erase(at);
}

void outgoing_flow::hold(held_message message) {
  assert(held_.empty() || held_.back().number < message.number);
  const std::size_t size = message.bytes.size();
  held_.push_back(std::move(message));
  held_bytes_ += size;
}

void outgoing_flow::path_lost(std::vector<held_message> left) {
  assert(left.empty() || held_.empty() || left.back().number < held_.front().number);
  for (const held_message& message : left)
    held_bytes_ += message.bytes.size();
  held_.insert(held_.begin(), std::make_move_iterator(left.begin()),
               std::make_move_iterator(left.end()));
}

void outgoing_flow::resume(const node_life& life, const flow_position& point, restart_policy policy,
                           const sink& report) {
  fresh_path_ = true;
  const bool same_life = life == sent_to_;
  sent_to_ = life;
  if (same_life && point.known) {
    while (!held_.empty() && held_.front().number <= point.last)
      remove(held_.begin());  // delivered
    for (held_message& message : held_)
      message.may_have_arrived = false;
    return;
  }
  std::deque<held_message> given_up;
  for (auto at = held_.begin(); at != held_.end();) {
    if (!at->may_have_arrived) {
      ++at;
    } else if (same_life || policy == restart_policy::report) {
      // The same life has forgotten what it had: it would take this one for new.
      held_bytes_ -= at->bytes.size();
      given_up.push_back(std::move(*at));
      at = held_.erase(at);
    } else {
      at->may_have_arrived = false;
      at->redelivered = true;
      ++at;
    }
  }
  for (const held_message& message : given_up)
    report(message, same_life ? errc::superseded : errc::peer_closed);
}

void outgoing_flow::expire(std::chrono::nanoseconds now, const sink& report) {
  std::vector<held_message> late;
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->deadline.count() == 0 || at->deadline > now) {
      ++at;
      continue;
    }
    held_bytes_ -= at->bytes.size();
    late.push_back(std::move(*at));
    at = held_.erase(at);
  }
  for (const held_message& message : late)
    report(message, errc::timed_out);
}

std::optional<std::chrono::nanoseconds> outgoing_flow::earliest_deadline() const noexcept {
  std::optional<std::chrono::nanoseconds> earliest;
  for (const held_message& message : held_) {
    if (message.deadline.count() != 0 && (!earliest || message.deadline < *earliest))
      earliest = message.deadline;
  }
  return earliest;
}

void outgoing_flow::drop_oldest(errc reason, const sink& report) {
  assert(!held_.empty());
  const held_message oldest = std::move(held_.front());
  held_bytes_ -= oldest.bytes.size();
  held_.pop_front();
  report(oldest, reason);
}

void outgoing_flow::abandon(errc reason, const sink& report) {
  const std::deque<held_message> all = std::exchange(held_, {});
  held_bytes_ = 0;
  for (const held_message& message : all)
    report(message, reason);
}

}  // namespace atbus::detail
