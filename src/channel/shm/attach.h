// Opens a named segment as its receiver, or as a sender in one of its lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/status.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/shm/sender_state.h"

namespace atbus::detail {

// Makes the segment, or takes over an existing one without a receiver. The caller owns the result. Errors:
// those of receiver::open.
[[nodiscard]] result<receiver_state*> open_lane_receiver(const address& where,
                                                         const receiver_options& options);

// As above, for `count` receivers that share the lanes: receiver i of n reads lanes i, i + n, and so on.
[[nodiscard]] result<std::vector<receiver_state*>> open_lane_shards(
    const address& where, std::uint32_t count, const receiver_options& options);

// Takes a free lane and announces the sender in it. The caller owns the result. Errors: those of
// sender::open.
[[nodiscard]] result<sender_state*> open_lane_sender(const address& where,
                                                     const sender_options& options);

}  // namespace atbus::detail
