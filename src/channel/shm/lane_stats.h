// Reads a lane's counters into the public struct.
#pragma once

#include <algorithm>

#include "atbus/channel_options.hpp"
#include "atbus/detail/lane.hpp"

namespace atbus::detail {

inline void add_stats(channel_stats& sum, const lane_slot& slot) noexcept {
  const auto read = [](const shared_word& word) { return word.load(std::memory_order_relaxed); };
  sum.messages += read(slot.messages);
  sum.bytes += read(slot.bytes);
  sum.full += read(slot.full);
  sum.wake_ups += read(slot.rings);
  sum.space_rings += read(slot.space_rings);
  sum.redelivered += read(slot.redelivered);
  sum.quarantined += read(slot.quarantines);
  sum.padding_bytes += read(slot.padding_bytes);
  sum.high_water_mark = std::max(sum.high_water_mark, read(slot.high_water_mark));
}

}  // namespace atbus::detail
