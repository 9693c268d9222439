// How messages of circuits find room in a link that this node fills with messages of its own.
//
// A batch that was refused comes again some time later; the node's user sends whenever it likes, and
// would take all room as soon as there is some. So once a batch was refused the link is shared, for as
// long as batches come. Each time that half of its room is free, the user gets a quarter of it. What is
// left is there for batches: while the user waits for a quarter, twice as much, then they are refused,
// so that half of the room becomes free however many circuits there are.
#include <algorithm>

#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

// A link on which no batch went for so long is no longer shared.
constexpr std::chrono::nanoseconds share_time = std::chrono::seconds{1};
// How soon a node that sleeps looks whether a link is half free.
constexpr std::chrono::nanoseconds look_time = std::chrono::milliseconds{1};

}  // namespace

void node_core::share(session& path) noexcept {
  if (std::exchange(path.shared, true))
    return;
  path.share_left = path.carried_bytes = 0;
  if (!share_clock_.pending())
    share_clock_.set(moment_after(on_.clock.now(), share_time));
}

bool node_core::takes_share(const peer& to, session& path, std::size_t size) noexcept {
  // Room that is kept for others must not make a peer look too slow.
  if (to.policy.overflow == overflow_policy::disconnect)
    return true;
  if (path.share_left == 0) {
    want_share(path);
    return false;
  }
  path.share_left -= std::min(path.share_left, size);
  return true;
}

void node_core::want_share(session& path) noexcept {
  path.share_left = 0;
  path.wants_share = wants_share_ = true;
  if (!share_look_.pending())
    share_look_.set(moment_after(on_.clock.now(), look_time));
}

void node_core::hand_out_shares() {
  wants_share_ = false;
  for (const auto& one : sessions_) {
    if (!one->wants_share || one->stage != session_stage::registered)
      continue;
    one->share_left = one->at.share();
    if (one->shared && one->share_left == 0) {
      wants_share_ = true;
      continue;
    }
    one->carried_bytes = 0;
    circuits_.writable();  // no event of the link tells those that were refused here
    if (one->share_left != 0)
      one->carried_most = 2 * one->share_left;
    one->wants_share = false;
    if (one->of->current != one.get())
      continue;
    one->of->blocked = false;
    drain(*one->of);
  }
  if (wants_share_ && !share_look_.pending())
    share_look_.set(moment_after(on_.clock.now(), look_time));
}

void node_core::end_sharing() {
  bool again = false;
  for (const auto& one : sessions_) {
    if (one->shared && !std::exchange(one->carried, false)) {
      one->shared = false;
      circuits_.writable();
    }
    again = again || one->shared;
  }
  if (again)
    share_clock_.set(moment_after(on_.clock.now(), share_time));
}

}  // namespace atbus::detail
