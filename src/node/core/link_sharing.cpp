#include "node/core/link_sharing.h"

#include <algorithm>
#include <utility>

namespace atbus::detail {
namespace {

// A link on which no batch went for so long is no longer shared.
constexpr std::chrono::nanoseconds share_time = std::chrono::seconds{1};
// How soon a node that sleeps looks whether a link is half free.
constexpr std::chrono::nanoseconds look_time = std::chrono::milliseconds{1};

}  // namespace

void link_sharing::share(session& path) noexcept {
  if (std::exchange(path.shared, true))
    return;
  path.share_left = path.carried_bytes = 0;
  if (!clock_.pending())
    clock_.set(moment_after(node_.now(), share_time));
}

bool link_sharing::take(const peer& to, session& path, std::size_t size) noexcept {
  // Room that is kept for others must not make a peer look too slow.
  if (to.policy.overflow == overflow_policy::disconnect)
    return true;
  if (path.share_left == 0) {
    want(path);
    return false;
  }
  path.share_left -= std::min(path.share_left, size);
  return true;
}

bool link_sharing::takes_batch(session& path, std::size_t size) noexcept {
  path.carried = true;
  if (!path.shared || !path.wants_share) [[likely]]
    return true;
  if (path.carried_bytes >= path.carried_most)
    return false;
  path.carried_bytes += size;
  return true;
}

void link_sharing::want(session& path) noexcept {
  path.share_left = 0;
  path.wants_share = is_wanted_ = true;
  if (!look_.pending())
    look_.set(moment_after(node_.now(), look_time));
}

void link_sharing::hand_out(const std::function<void(session&)>& has_room) {
  is_wanted_ = false;
  for (const auto& one : sessions_) {
    if (!one->wants_share || one->stage != session_stage::registered)
      continue;
    one->share_left = one->at.share();
    if (one->shared && one->share_left == 0) {
      is_wanted_ = true;
      continue;
    }
    one->carried_bytes = 0;
    circuits_.writable();  // no event of the link tells those that were refused here
    if (one->share_left != 0)
      one->carried_most = 2 * one->share_left;
    one->wants_share = false;
    has_room(*one);
  }
  if (is_wanted_ && !look_.pending())
    look_.set(moment_after(node_.now(), look_time));
}

void link_sharing::end() {
  bool again = false;
  for (const auto& one : sessions_) {
    if (one->shared && !std::exchange(one->carried, false)) {
      one->shared = false;
      circuits_.writable();
    }
    again = again || one->shared;
  }
  if (again)
    clock_.set(moment_after(node_.now(), share_time));
}

}  // namespace atbus::detail
