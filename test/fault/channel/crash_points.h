// Names of the protocol's steps, and what a process does when it reaches one of them.
#pragma once

#include "atbus/detail/test_hook.hpp"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test {

using detail::step;

inline constexpr std::size_t step_count = static_cast<std::size_t>(step::count);

// In the order of the enum: a step that is added there does not compile here until it has a name,
// and its tests fail until a scenario reaches it.
inline constexpr auto step_names = std::to_array<std::string_view>({
    "padding_written",
    "record_written",
    "before_tail",
    "after_tail",
    "ready_bit_set",
    "before_ring",
    "after_ring",
    "fence_echo_stored",
    "request_stored",
    "request_checked",
    "lane_locked",
    "lane_reserved",
    "open_record_published",
    "withdrawn_set",
    "withdrawn_asked",
    "withdrawn_cut",
    "handling_stored",
    "handler_returned",
    "done_stored",
    "before_head",
    "after_head",
    "lanes_parked",
    "sleeping_stored",
    "sleep_checked",
    "woken",
    "segment_built",
    "receiver_locked",
    "segment_linked",
    "generation_stored",
    "bell_bound",
    "speaker_copied",
    "orphan_locked",
    "orphan_released",
    "retired_stored",
    "name_unlinked",
    "hello_written",
    "lane_offered",
    "offer_written",
    "switch_said",
    "switch_written",
    "switch_read",
    "gate_opened",
});
static_assert(step_names.size() == step_count, "give the new step a name and a scenario");

[[nodiscard]] constexpr std::string_view name_of(step s) {
  return step_names[static_cast<std::size_t>(s)];
}

// Of a stream that goes over to a lane; the others are those of the lane itself.
[[nodiscard]] constexpr bool is_switch_step(step s) {
  return s >= step::hello_written;
}

// For tests with a step as parameter.
[[nodiscard]] inline std::string step_test_name(const ::testing::TestParamInfo<step>& of) {
  return std::string{name_of(of.param)};
}

enum class action : std::uint8_t {
  none,
  kill,   // SIGKILL to itself
  stop,   // SIGSTOP to itself
  pause,  // waits until the test says go
  exit,   // leaves without unwinding, as a crash handler would
};

// What one process is to do, and what it tells about itself. Lies in memory shared with the test.
struct crash_plan {
  step at = step::count;
  std::uint32_t nth = 1;  // how many times the step is reached before the action
  action what = action::none;
  shared_counter reached;  // 1: the action is being done
  shared_counter go;       // a paused process waits for this
  shared_counter asleep;   // 1 between a last look before sleeping and waking up
  std::array<shared_counter, step_count> passed;  // times each step was reached
};

// From now on this process follows `plan`.
void follow(crash_plan& plan);

}  // namespace atbus::test
