// Both ends of a handed segment: whoever receives makes it and hands its lanes out, one for each
// sender, through a socket.
//
// The caller keeps forks away (fork_pause).
#pragma once

#include <cstdint>
#include <string>

#include "atbus/channel_options.hpp"
#include "atbus/status.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/shm/sender_state.h"
#include "system/kernel.h"

namespace atbus::detail {

// Its receiver, with nothing handed out; `text` names it in errors.
[[nodiscard]] result<receiver_state*> make_handed_receiver(const std::string& text,
                                                           const receiver_options& options);

// The sender in a lane that was handed over. It has not announced itself: start() does.
[[nodiscard]] result<sender_state*> make_handed_sender(file segment, file bell, std::string text,
                                                       std::uint32_t lane,
                                                       const sender_options& options,
                                                       lane_writer* shared = nullptr);

}  // namespace atbus::detail
