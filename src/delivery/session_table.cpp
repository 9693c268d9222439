#include "delivery/session_table.h"

#include <new>

namespace atbus::detail {

void session_table::remember(const node_instance& sender, const incoming_flow& flow,
                             bool silent) noexcept {
  const auto found = places_.find(sender);
  if (found != places_.end())
    forget(found->second);
  if (!flow.has_begun() && !silent)
    return;
  if (sessions_.size() == most_) {
    ++forgotten_;
    if (most_ == 0)
      return;
    forget(sessions_.begin());
  }
  try {
    session_list one;
    one.push_back({sender, flow, silent});
    places_.emplace(sender, one.begin());
    sessions_.splice(sessions_.end(), one);
  } catch (const std::bad_alloc&) {
    lose(flow);
  }
}

incoming_flow session_table::take(const node_instance& sender) {
  const auto found = places_.find(sender);
  if (found == places_.end())
    return incoming_flow{forgotten_ + lost_ + 1};
  const incoming_flow flow = found->second->flow;
  forget(found->second);
  return flow;
}

void session_table::supersede(const node_instance& by) noexcept {
  for (session& one : sessions_) {
    if (one.silent && one.sender.id == by.id && one.sender != by)
      one.superseded = true;
  }
}

const incoming_flow* session_table::find(const node_instance& sender) const {
  const auto found = places_.find(sender);
  return found != places_.end() ? &found->second->flow : nullptr;
}

const incoming_flow* session_table::superseded(const node_instance& sender) const {
  const auto found = places_.find(sender);
  return found != places_.end() && found->second->superseded ? &found->second->flow : nullptr;
}

void session_table::forget(session_list::iterator at) {
  places_.erase(at->sender);
  sessions_.erase(at);
}

}  // namespace atbus::detail
