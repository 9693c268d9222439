#include "node/core/acknowledgements.h"

namespace atbus::detail {
namespace {

// Control messages alone are acknowledged when there are so many.
constexpr std::uint64_t unacknowledged_controls = 32;
// Acknowledgements that nobody has asked for wait so long for company.
constexpr std::chrono::nanoseconds acknowledge_delay = std::chrono::milliseconds{20};
// And go with it no more often than this: questions and answers in quick turns need not carry one each.
constexpr std::chrono::nanoseconds acknowledge_interval = std::chrono::microseconds{100};

}  // namespace

void acknowledgements::list(session& from, bool data) {
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
  if (!output_.say(by, acknowledge_body{.handled = by.handled}))
    return false;
  by.told = by.handled;
  by.acknowledged_at = now;
  by.acknowledge_now = false;
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
    // Company: something else leaves with it.
    const bool company = by->committed != by->committed_at_flush;
    by->committed_at_flush = by->committed;
    if ((all || by->acknowledge_now ||
         (company && now - by->acknowledged_at >= acknowledge_interval)) &&
        acknowledge(*by, now)) {
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
