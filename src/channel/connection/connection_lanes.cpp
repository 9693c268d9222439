// The part of a connection_set that agrees on lanes while a connection opens (lane_pairing.h).
#include "atbus/detail/test_hook.hpp"
#include "channel/connection/connection_set.h"

namespace atbus::detail {

bool connection_core::offers_lanes(const address& at) const noexcept {
  return lanes_ != nullptr && at.kind() == address_kind::unix_socket &&
         at.flag(address_option::shm).value_or(true);
}

void connection_core::begin_pairing(connection_entry& c) noexcept {
  c.pairing = {};
  if (!c.own.offers_lane_pair)
    return;
  c.pairing = {*lanes_, c.id, c.dial != nullptr};
  c.link->take_descriptors(true);
}

bool connection_core::pair_lanes(connection_entry& c) noexcept {
  if (c.pairing.undecided()) {
    // Descriptors of lanes pass from one guarded object to another. A child that kept one would hold this
    // end's lock, or the other end's: a process that has ended would count as alive.
    const fork_pause no_fork;
    c.pairing.go_on(*c.link);
  }
  if (c.pairing.now() == lane_pairing::state::broken) {
    c.link->close({errc::protocol_error, "the peer violated the order of an opening with lanes"});
    report_fault(c);
    link_ended(c);
  } else if (c.pairing.undecided()) {
    write(c);
    test_hook(step::offer_written);
  } else {
    return false;
  }
  return true;
}

}  // namespace atbus::detail
