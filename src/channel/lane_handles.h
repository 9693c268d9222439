// Makes public handles for lanes that were not opened by an address.
#pragma once

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "channel/shm/receiver_state.h"
#include "channel/shm/sender_state.h"

namespace atbus::detail {

struct lane_handles {
  // These take ownership of their argument.
  [[nodiscard]] static receiver to_receiver(receiver_state* made) noexcept {
    return receiver{made};
  }
  [[nodiscard]] static sender to_sender(sender_state* made) noexcept { return sender{made}; }
  [[nodiscard]] static receiver_state& state_of(const receiver& of) noexcept {
    return static_cast<receiver_state&>(*of.backend_);
  }
  // Of a receiver of lanes: whether a poll would deliver a message.
  [[nodiscard]] static bool has_messages(const receiver& of) noexcept {
    return of.is_open() && state_of(of).anything();
  }
};

}  // namespace atbus::detail
