// How a receiver is brought to each of its steps.
#pragma once

#include "fault/channel/drill.h"

namespace atbus::test {

enum class receiver_script : std::uint8_t {
  none,
  make,       // opens, and is the first
  take_over,  // opens after another died, with messages waiting
  run,        // a sender talks to it
  orphan,     // a sender dies
  remove,     // removes the segment
};

struct receiver_scenario {
  step at = step::count;
  std::uint32_t nth = 1;
  receiver_script script = receiver_script::none;
  std::uint32_t marks = 0;  // redelivered after a death there
};

[[nodiscard]] std::vector<receiver_scenario> receiver_scenarios();
[[nodiscard]] std::string scenario_name(const ::testing::TestParamInfo<receiver_scenario>& info);

}  // namespace atbus::test
