#include "node/core/refusal_delay.h"

#include <algorithm>

namespace atbus::detail {

std::chrono::nanoseconds refusal_delay::of_next(const std::string& address,
                                                std::chrono::nanoseconds now) {
  if (known_.size() == addresses_max && !known_.contains(address))
    make_room(now);
  record& of = known_[address];
  if (now - of.last_seen >= remembered)
    of.next = std::chrono::nanoseconds{0};
  of.last_seen = now;
  const std::chrono::nanoseconds delay = of.next;
  of.next = std::clamp(2 * delay, first, longest);
  return delay;
}

void refusal_delay::make_room(std::chrono::nanoseconds now) {
  std::erase_if(known_, [&](const auto& one) { return now - one.second.last_seen >= remembered; });
  if (known_.size() < addresses_max)
    return;
  known_.erase(
      std::ranges::min_element(known_, {}, [](const auto& one) { return one.second.last_seen; }));
}

}  // namespace atbus::detail
