#include "node/core/acknowledgements.h"

namespace atbus::detail {
namespace {

// So many control messages are acknowledged although no data has come.
constexpr std::uint64_t unacknowledged_controls = 32;
// How long an acknowledgement that the other end has not requested waits for a message to leave with.
constexpr std::chrono::nanoseconds acknowledge_delay = std::chrono::milliseconds{20};
// The shortest time between two that leave with other messages: quick questions and answers need not carry one
// each.
constexpr std::chrono::nanoseconds acknowledge_interval = std::chrono::microseconds{100};

}  // namespace

void acknowledgements::list(session& from, bool data) noexcept {
  if (!data && from.handled - from.told < unacknowledged_controls)
    return;
  from.acknowledge_listed = true;
  from.committed_at_flush = from.committed;
  listed_.push_back(&from);
  if (due_ == timer_queue::never)
    due_ = node_.now() + acknowledge_delay;
}

void acknowledgements::acknowledge_at_once(session& by) {
  if (by.keeps && by.is_direct && by.handled != by.told && acknowledge(by, node_.now()))
    by.at.flush();
  by.acknowledge_now = by.keeps;  // the rest, at the end of this poll
}

bool acknowledgements::acknowledge(session& by, std::chrono::nanoseconds now) {
  const std::uint64_t handled = done(by);
  if (handled == by.told || !output_.say(by, acknowledge_body{.handled = handled}))
    return false;
  by.told = handled;
  by.acknowledged_at = now;
  by.acknowledge_now = by.acknowledge_now && handled != by.handled;
  by.committed_at_flush = by.committed;
  ++node_.stats.acknowledgements;
  return true;
}

void acknowledgements::acknowledge_due(std::chrono::nanoseconds now) {
  const bool all = now >= due_;
  std::size_t kept = 0;
  for (session* by : listed_) {
    if (by->stage != session_stage::registered || by->handled == by->told) {
      by->acknowledge_listed = by->acknowledge_now = false;
      continue;
    }
    // Something else leaves on this link.
    const bool company = by->committed != by->committed_at_flush;
    by->committed_at_flush = by->committed;
    if ((all || by->acknowledge_now ||
         (company && now - by->acknowledged_at >= acknowledge_interval)) &&
        acknowledge(*by, now) && by->told == by->handled) {
      by->acknowledge_listed = false;
      continue;
    }
    listed_[kept++] = by;
  }
  listed_.resize(kept);
  if (listed_.empty())
    due_ = timer_queue::never;
  else if (all)
    due_ = now + acknowledge_delay;
}

}  // namespace atbus::detail
