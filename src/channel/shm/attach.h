// How a process takes its end of a segment with a name: its receiver, or a sender in one of its lanes.
#pragma once

#include "atbus/address.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/status.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/shm/sender_state.h"

namespace atbus::detail {

// Makes the segment, or takes over the one that has no receiver. The caller owns what is returned.
// Errors: those of receiver::open.
[[nodiscard]] result<receiver_state*> open_lane_receiver(const address& where,
                                                         const receiver_options& options);

// A sender that has announced itself in a free lane. The caller owns what is returned. Errors: those of
// sender::open.
[[nodiscard]] result<sender_state*> open_lane_sender(const address& where,
                                                     const sender_options& options);

}  // namespace atbus::detail
