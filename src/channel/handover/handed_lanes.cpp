#include "channel/handover/handed_lanes.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "channel/shm/channel_address.h"
#include "channel/shm/taken_lane.h"

namespace atbus::detail {

result<receiver_state*> make_handed_receiver(const std::string& text,
                                             const receiver_options& options) {
  segment_address wanted;
  wanted.name.handed = true;
  wanted.name.name = text;
  wanted.lanes = options.lanes;
  wanted.lane_size = options.lane_size;
  wanted.message_limit = options.message_limit;
  auto geometry = choose_geometry(wanted);
  if (!geometry)
    return geometry.error();
  auto built = build_segment(wanted.name, *geometry);
  if (!built)
    return built.error();
  if (auto e = map_all_lanes(*built); !e)
    return e;
  if (try_lock_byte(built->fd.get(), receiver_lock_byte) != lock_state::taken)
    return error{errc::system_error, text + ": can't lock its lanes", errno};
  std::unique_ptr<receiver_state, release_end> made{new receiver_state(std::move(*built), options)};
  if (error failed = made->start(); !failed)
    return failed;
  return made.release();
}

result<sender_state*> make_handed_sender(file segment, file bell, std::string text,
                                         std::uint32_t lane, const sender_options& options,
                                         lane_writer* shared) {
  auto taken = take_handed_lane(std::move(segment), std::move(text), lane);
  if (!taken)
    return taken.error();
  if (options.prefault)
    prefault_lane(*taken);
  auto* const made = new sender_state(std::move(taken->opened), taken->lane, options, shared);
  made->adopt_bell(std::move(bell));
  return made;
}

}  // namespace atbus::detail
