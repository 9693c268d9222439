// The part of a lane_transport that serves connections: lanes without a name, exchanged while a Unix
// connection opens.
#include <algorithm>
#include <new>
#include <utility>

#include "channel/handover/handed_lanes.h"
#include "channel/lane_handles.h"
#include "core/error_text.h"
#include "node/link/lane_link.h"
#include "node/link/lane_transport.h"

namespace atbus::detail {

result<receiver> lane_transport::open_handed(const address& at, const receiver_options& options) {
  const fork_pause no_fork;
  auto made = make_handed_receiver(at.to_string(), options);
  if (!made)
    return made.error();
  return lane_handles::to_receiver(*made);
}

lane_transport::exchange& lane_transport::exchange_for(std::uint64_t connection) {
  const auto at = std::find_if(exchanges_.begin(), exchanges_.end(),
                               [&](const exchange& one) { return one.connection == connection; });
  return at != exchanges_.end() ? *at : exchanges_.emplace_back(exchange{connection});
}

result<lane_exchange::ends> lane_transport::offer_lane(std::uint64_t connection) noexcept {
  try {
    return try_offer_lane(connection);
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

result<lane_exchange::ends> lane_transport::try_offer_lane(std::uint64_t connection) {
  if (closed_)
    return error{errc::closed};
  if (!no_handed_)
    return no_handed_;
  const auto own = own_inbox(address_kind::unix_socket);
  if (!own) {
    no_handed_ = own.error();
    return no_handed_;
  }
  inbox& in = **own;
  const fork_pause no_fork;
  for (std::uint32_t lane = 0; lane != in.lanes.size(); ++lane) {
    const bool taken = in.lanes[lane].link != nullptr ||
                       std::any_of(exchanges_.begin(), exchanges_.end(),
                                   [&](const exchange& one) { return one.lane == lane; });
    if (taken)
      continue;
    auto made = lane_handles::state_of(in.in).hand_out(lane);
    if (!made && made.error() == errc::no_free_lane)
      continue;  // what is left of an earlier link
    if (!made)
      return made.error();
    exchange_for(connection).lane = lane;
    return ends{lane, std::move(made->segment), std::move(made->bell)};
  }
  return error{errc::no_free_lane, "all " + std::to_string(in.lanes.size()) + " lanes are in use"};
}

error lane_transport::take_lane(std::uint64_t connection, ends theirs) noexcept {
  return error_of(errc::out_of_memory,
                  [&] { return try_take_lane(connection, std::move(theirs)); });
}

error lane_transport::try_take_lane(std::uint64_t connection, ends theirs) {
  if (closed_)
    return {errc::closed};
  const fork_pause no_fork;
  auto made = make_handed_sender(std::move(theirs.segment), std::move(theirs.bell),
                                 "the other end's lanes", theirs.lane, {});
  if (!made)
    return made.error();
  sender out = lane_handles::to_sender(*made);
  (*made)->count_owed_ring_in(rings_owed_);
  if (const status s = (*made)->start(); !s)
    return {s.code(), "can't announce itself in the other end's lane"};
  exchange_for(connection).out = std::move(out);
  return {};
}

void lane_transport::give_up(std::uint64_t connection, const error& why) noexcept {
  std::erase_if(exchanges_, [&](const exchange& one) {
    // Refuse messages that its sender may have written. Then the lane becomes free.
    if (one.connection == connection && one.lane)
      lane_handles::state_of((*own_inbox(address_kind::unix_socket))->in).open_gate(*one.lane);
    return one.connection == connection;
  });
  const auto told = std::find(sockets_why_.begin(), sockets_why_.end(), why.code());
  if (why || closed_ || told != sockets_why_.end())
    return;
  try {
    problems_.push_back(why.with_text("unix://: " + why.text() +
                                      "; messages go through the socket instead of shared memory"));
    sockets_why_.push_back(why.code());
  } catch (const std::bad_alloc&) {  // it is said the next time
  }
}

link* lane_transport::join(std::uint64_t connection, const std::string& peer) {
  exchange with = std::move(exchange_for(connection));
  std::erase_if(exchanges_, [&](const exchange& one) { return one.connection == connection; });
  inbox& own = **own_inbox(address_kind::unix_socket);
  const std::uint64_t session = lane_handles::state_of(own.in).meet(*with.lane);
  if (session == 0)
    return nullptr;
  lane_link& made = add(own, peer);
  made.out_ = std::move(with.out);
  made.generation_ = made.out_->receiver_generation();
  made.now_ = lane_link::phase::open;
  attach(made, *with.lane, session);
  return &made;
}

}  // namespace atbus::detail
