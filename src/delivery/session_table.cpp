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
  if (!make_room_for_words(flow.words_owed())) {
    ++forgotten_;
    return;
  }
  try {
    session_list one;
    one.push_back({sender, flow, silent});
    places_.emplace(sender, one.begin());
    sessions_.splice(sessions_.end(), one);
    words_ += flow.words_owed();
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

bool session_table::make_room_for_words(std::size_t words) {
  for (auto at = sessions_.begin(); at != sessions_.end() && words_ + words > words_max;) {
    const auto oldest = at++;
    if (!oldest->flow.owes_words())
      continue;
    ++forgotten_;
    forget(oldest);
  }
  return words_ + words <= words_max;
}

void session_table::forget(session_list::iterator at) {
  words_ -= at->flow.words_owed();
  places_.erase(at->sender);
  sessions_.erase(at);
}

}  // namespace atbus::detail
