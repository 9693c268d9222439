// Named steps of the shared-memory protocol at which tests kill or stop a process. In an ordinary
// build each is an empty inline function; the crash-point tests link a build of the library with
// ATBUS_TEST_HOOKS=1.
#pragma once

#include <cstdint>

#include "atbus/detail/export.hpp"

namespace atbus::detail {

enum class step : std::uint8_t {
  // sender, once per message
  padding_written,
  record_written,
  before_tail,
  after_tail,
  // sender, when its lane has an alert
  ready_bit_set,
  before_ring,
  after_ring,
  fence_echo_stored,
  // sender, waiting for space
  request_stored,
  request_checked,
  // sender, opening, closing, taking back
  lane_locked,
  lane_reserved,
  open_record_published,
  withdrawn_set,
  withdrawn_asked,
  withdrawn_cut,
  // receiver, once per message
  handling_stored,
  handler_returned,
  done_stored,
  before_head,
  after_head,
  // receiver, going to sleep
  lanes_parked,
  sleeping_stored,
  sleep_checked,
  woken,
  // receiver, opening, removing, retiring a lane
  segment_built,
  receiver_locked,
  segment_linked,
  generation_stored,
  bell_bound,
  speaker_copied,
  orphan_locked,
  orphan_released,
  retired_stored,
  name_unlinked,
  // a stream that moves on to a lane: steps of sender and receiver, in the order in which they happen
  hello_written,
  lane_offered,
  offer_written,
  switch_said,
  switch_written,
  switch_read,
  gate_opened,
  count,
};

#if defined(ATBUS_TEST_HOOKS) && ATBUS_TEST_HOOKS
ATBUS_API extern void (*on_step)(step);
inline void test_hook(step at) {
  if (on_step != nullptr)
    on_step(at);
}
#else
inline void test_hook(step) noexcept {}
#endif

}  // namespace atbus::detail
