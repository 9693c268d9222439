// How a sender is brought to each of its steps.
#pragma once

#include "fault/channel/drill.h"

namespace atbus::test {

enum class sender_script : std::uint8_t {
  none,
  talk,       // messages to a receiver that sleeps between them
  wake,       // each wakes the receiver: from the 16th on it fences, then it rings an eventfd
  fill,       // the lane gets full, and the sender waits for room
  take_back,  // there is no receiver any more
};

struct sender_scenario {
  step at = step::count;
  std::uint32_t nth = 1;
  sender_script script = sender_script::none;
  bool restart = false;  // of the receiver, while the sender is stopped
  std::uint32_t messages = 0;
};

// Steps that only a receiver takes.
[[nodiscard]] bool is_receiver_step(step s);
// All scenarios; a sender's step without one is there with sender_script::none, to fail its test.
[[nodiscard]] std::vector<sender_scenario> sender_scenarios();
[[nodiscard]] std::string sender_scenario_name(
    const ::testing::TestParamInfo<sender_scenario>& info);
[[nodiscard]] child_process start_victim(drill& world, std::uint32_t role,
                                         const sender_scenario& s);

}  // namespace atbus::test
