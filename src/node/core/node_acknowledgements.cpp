// When a node says how far it has come with what a link brought, and what it does when it is told.
#include <utility>

#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

// Control messages alone are acknowledged when there are so many.
constexpr std::uint64_t unacknowledged_controls = 32;
// Acknowledgements that nobody has asked for wait so long for company.
constexpr std::chrono::nanoseconds acknowledge_delay = std::chrono::milliseconds{20};
// And go with it no more often than this: questions and answers in quick turns need not carry one each.
constexpr std::chrono::nanoseconds acknowledge_interval = std::chrono::microseconds{100};

}  // namespace

void node_core::list_acknowledgement(session& from, bool data) {
  if (!data && from.handled - from.told < unacknowledged_controls)
    return;
  from.acknowledge_listed = true;
  from.committed_at_flush = from.committed;
  to_acknowledge_.push_back(&from);
  if (acknowledge_by_ == timer_queue::never)
    acknowledge_by_ = on_.clock.now() + acknowledge_delay;
}

// The sender may be waiting for room, and the poll that runs may go on for long.
void node_core::acknowledge_at_once(session& by) {
  if (by.keeps && by.is_direct && by.handled != by.told && acknowledge(by, on_.clock.now()))
    by.at.flush();
  by.acknowledge_now = by.keeps;  // the rest, at the end of this poll
}

bool node_core::acknowledge(session& by, std::chrono::nanoseconds now) {
  if (!say(by, acknowledge_body{.handled = by.handled}))
    return false;
  by.told = by.handled;
  by.acknowledged_at = now;
  by.acknowledge_now = false;
  by.committed_at_flush = by.committed;
  ++stats_.acknowledgements;
  return true;
}

void node_core::acknowledge_due(std::chrono::nanoseconds now) {
  const bool all = now >= acknowledge_by_;
  std::size_t kept = 0;
  for (session* by : to_acknowledge_) {
    if (by->stage != session_stage::registered || by->handled == by->told) {
      by->acknowledge_listed = by->acknowledge_now = false;
      continue;
    }
    // Company: something else leaves with it.
    const bool company = by->committed != by->committed_at_flush;
    by->committed_at_flush = by->committed;
    if ((all || by->acknowledge_now ||
         (company && now - by->acknowledged_at >= acknowledge_interval)) &&
        acknowledge(*by, now)) {
      by->acknowledge_listed = false;
      continue;
    }
    to_acknowledge_[kept++] = by;
  }
  to_acknowledge_.resize(kept);
  if (to_acknowledge_.empty())
    acknowledge_by_ = timer_queue::never;
  else if (all)
    acknowledge_by_ = now + acknowledge_delay;
}

void node_core::acknowledged(session& by, std::uint64_t handled) {
  if (handled > by.committed || handled < by.released || !by.keeps) {
    return violation(
        by, {errc::protocol_error, "it acknowledges message " + std::to_string(handled) + " of " +
                                       std::to_string(by.committed)});
  }
  by.at.release(handled - by.released);
  by.released = handled;
  if (by.of->current == &by)
    drain(*by.of);
}

}  // namespace atbus::detail
