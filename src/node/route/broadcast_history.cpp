#include "node/route/broadcast_history.h"

#include <new>
#include <utility>

namespace atbus::detail {

bool broadcast_history::sequence::is_first(std::uint64_t number) noexcept {
  const std::uint64_t ahead = number - highest;
  if (ahead != 0 && ahead < reach) {
    if (ahead < window)
      seen <<= static_cast<std::size_t>(ahead);
    else
      seen.reset();
    seen.set(0);
    highest = number;
    return true;
  }
  const std::uint64_t behind = highest - number;
  if (behind >= window || seen.test(static_cast<std::size_t>(behind)))
    return false;
  seen.set(static_cast<std::size_t>(behind));
  return true;
}

bool broadcast_history::is_first(bus_id source, std::uint64_t number) {
  const auto known = places_.find(source.value());
  if (known == places_.end()) {
    if (states_.size() == sources_max) {
      places_.erase(states_.front().source.value());
      states_.pop_front();
    }
    states_.push_back({source, {}});
    try {
      places_.emplace(source.value(), std::prev(states_.end()));
    } catch (const std::bad_alloc&) {
      states_.pop_back();  // nothing would find it
      throw;
    }
  } else {
    states_.splice(states_.end(), states_, known->second);
  }
  auto& [current, previous] = states_.back().incarnations;
  if (!current.is_near(number)) {
    if (previous.is_near(number))
      return previous.is_first(number);
    previous = std::exchange(current, {});
    current.highest = number;
    current.seen.set(0);
    return true;
  }
  return current.is_first(number);
}

}  // namespace atbus::detail
