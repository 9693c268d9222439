#include "delivery/session_table.h"

#include <iterator>

namespace atbus::detail {

void session_table::remember(const node_life& sender, std::uint64_t last) {
  if (most_ == 0)
    return;
  (void)take(sender);
  if (sessions_.size() == most_) {
    places_.erase(sessions_.front().sender);
    sessions_.pop_front();
    ++forgotten_;
  }
  sessions_.push_back({sender, last});
  places_.emplace(sender, std::prev(sessions_.end()));
}

std::optional<std::uint64_t> session_table::take(const node_life& sender) {
  const auto found = places_.find(sender);
  if (found == places_.end())
    return {};
  const std::uint64_t last = found->second->last;
  sessions_.erase(found->second);
  places_.erase(found);
  return last;
}

}  // namespace atbus::detail
