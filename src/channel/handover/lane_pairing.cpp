#include "channel/handover/lane_pairing.h"

#include <utility>

#include "atbus/detail/test_hook.hpp"
#include "system/socket.h"

namespace atbus::detail {

void lane_pairing::go_on(stream_link& link) noexcept {
  if (now_ == state::greeting && !link.agreed_lane_pair())
    return use_socket(link, {});
  if (now_ == state::greeting && !dialled_)
    return offer(link);
  const bool awaits_switch = dialled_ && now_ == state::offered;
  if (link.switched()) {
    if (!awaits_switch)
      return break_off();
    test_hook(step::switch_read);
    now_ = state::lanes;
    return;
  }
  const auto said = link.take_offered_lane();
  if (!said)
    return;
  if (*said == no_lane)
    return use_socket(link, {});
  if (awaits_switch)
    return break_off();  // a second offer violates the protocol
  if (!take(link, *said))
    return;
  if (dialled_)
    return offer(link);
  link.say_switch();
  test_hook(step::switch_said);
  now_ = state::lanes;
}

void lane_pairing::offer(stream_link& link) noexcept {
  if (!is_of_our_user(link.descriptor())) {
    return refuse(link, {errc::wrong_owner, "the other end is another user's process"});
  }
  auto ours = from_->offer_lane(connection_);
  if (!ours)
    return refuse(link, ours.error());
  link.offer_lane(ours->lane, std::move(ours->segment), std::move(ours->bell));
  now_ = state::offered;
  test_hook(step::lane_offered);
}

bool lane_pairing::take(stream_link& link, std::uint32_t lane) noexcept {
  lane_exchange::ends theirs{lane, link.take_segment(), link.take_bell()};
  error why;
  if (!is_of_our_user(link.descriptor()))
    why = {errc::wrong_owner, "the other end is another user's process"};
  else if (!theirs.segment || !theirs.bell)
    why = {errc::protocol_error, "no descriptors came with the other end's lane"};
  else
    why = from_->take_lane(connection_, std::move(theirs));
  if (!why)
    refuse(link, why);
  return static_cast<bool>(why);
}

void lane_pairing::refuse(stream_link& link, const error& why) noexcept {
  link.offer_lane(no_lane, {}, {});
  use_socket(link, why);
}

void lane_pairing::use_socket(stream_link& link, const error& why) noexcept {
  now_ = state::socket;
  link.take_descriptors(false);
  from_->give_up(connection_, why);
}

void lane_pairing::break_off() noexcept {
  now_ = state::broken;
  from_->give_up(connection_, {});
}

void lane_pairing::end() noexcept {
  if (undecided())
    break_off();
}

}  // namespace atbus::detail
