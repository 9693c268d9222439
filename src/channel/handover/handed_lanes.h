// Both ends of a handed segment. The receiver makes it and hands out its lanes through a socket, one for
// each sender.
//
// The caller blocks forks (fork_pause).
#pragma once

#include <cstdint>
#include <string>

#include "atbus/channel_options.hpp"
#include "atbus/status.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/shm/sender_state.h"
#include "system/kernel.h"

namespace atbus::detail {

// Of an end that is not in use yet.
struct release_end {
  template <class End>
  void operator()(End* of) const noexcept {
    of->release();
  }
};

// Makes the segment and its receiver, with no lane handed out; `text` names it in errors.
[[nodiscard]] result<receiver_state*> make_handed_receiver(const std::string& text,
                                                           const receiver_options& options);

// Makes a sender in a lane that was handed over. start() announces it in the lane.
[[nodiscard]] result<sender_state*> make_handed_sender(file segment, file bell, std::string text,
                                                       std::uint32_t lane,
                                                       const sender_options& options,
                                                       lane_writer* shared = nullptr);

}  // namespace atbus::detail
