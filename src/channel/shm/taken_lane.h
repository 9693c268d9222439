// Takes a lane of a segment for a sender: locks it, reserves its memory and maps it.
//
// The caller blocks forks (fork_pause) until a guarded object holds the segment.
#pragma once

#include <cstdint>
#include <string>

#include "atbus/status.hpp"
#include "channel/shm/channel_address.h"
#include "channel/shm/segment.h"

namespace atbus::detail {

struct taken_lane {
  segment opened;
  std::uint32_t lane = 0;
  bool was_unused = false;  // it had no memory
};

// Opens the named segment and takes a free lane. Errors: those of open_segment, geometry_mismatch,
// no_free_lane, no_space, retired, system_error.
[[nodiscard]] result<taken_lane> take_lane(const segment_address& wanted);

// Takes the lane `lane` of a segment that the receiver has handed over; `text` names it in errors.
[[nodiscard]] result<taken_lane> take_handed_lane(file fd, std::string text, std::uint32_t lane);

// Gives back the memory of a taken lane that had none, where no sender comes of it: the receiver never hears of that,
// and would not do it.
void give_lane_memory_back(const segment& opened, std::uint32_t lane) noexcept;

// Touches all pages of the lane.
void prefault_lane(const taken_lane& taken);

}  // namespace atbus::detail
