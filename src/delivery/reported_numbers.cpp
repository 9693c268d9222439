#include "delivery/reported_numbers.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace atbus::detail {

bool reported_numbers::has(std::uint64_t number) const noexcept {
  if (number <= below_)
    return true;
  const auto at = std::ranges::lower_bound(stretches_, number, {}, &stretch::last);
  return at != stretches_.end() && at->first <= number;
}

void reported_numbers::add(std::uint64_t number) noexcept {
  if (has(number))
    return;
  const auto after = std::ranges::lower_bound(stretches_, number, {}, &stretch::last);
  const bool touches_after = after != stretches_.end() && after->first == number + 1;
  const bool touches_before = after != stretches_.begin() && std::prev(after)->last + 1 == number;
  if (touches_before && touches_after) {
    after->first = std::prev(after)->first;
    stretches_.erase(std::prev(after));
  } else if (touches_before) {
    std::prev(after)->last = number;
  } else if (touches_after) {
    after->first = number;
  } else {
    try {
      stretches_.insert(after, {number, number});
    } catch (const std::bad_alloc&) {
      if (stretches_.empty())
        return;  // it may be reported again
      stretches_.erase(stretches_.begin());
      return add(number);
    }
  }
  if (stretches_.size() > stretches_max)
    stretches_.erase(stretches_.begin());
}

}  // namespace atbus::detail
