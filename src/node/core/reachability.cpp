#include "node/core/reachability.h"

#include <algorithm>

namespace atbus::detail {

bool reachability::better(const session& left, const session& right) const noexcept {
  if (left.at.kind() != right.at.kind())
    return left.at.kind() < right.at.kind();
  if (left.as != right.as)
    return left.as != relation::peer;
  // Both ends dialled: the dial of the one with the lower id wins.
  return left.by_us != right.by_us && left.by_us == (node_.self.id < left.instance.id);
}

session* reachability::link_to(const peer& next) const noexcept {
  const auto is_good = [&next](const session* one) {
    return one->stage == session_stage::registered && gives_place(*one, next);
  };
  if (next.current != nullptr && is_good(next.current)) [[likely]]
    return next.current;
  // Its own messages may still go over other nodes.
  session* best = nullptr;
  for (session* const one : next.sessions) {
    if (is_good(one) && (best == nullptr || better(*one, *best)))
      best = one;
  }
  return best;
}

bool reachability::has_place(const peer& of) noexcept {
  const bool keeps_it = of.as == relation::child || of.as == relation::parent;
  return std::ranges::any_of(of.sessions, [&](const session* one) {
    return gives_place(*one, of) && (keeps_it || one->stage == session_stage::registered);
  });
}

bool reachability::is_there(const peer& of) noexcept {
  return std::ranges::any_of(of.sessions,
                             [](const session* one) { return one->stage != session_stage::away; });
}

}  // namespace atbus::detail
