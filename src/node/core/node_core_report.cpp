// What a node says of itself.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "atbus/build_settings.hpp"
#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

peer_channel channel_of(link_kind kind) noexcept {
  switch (kind) {
    case link_kind::memory:
      return peer_channel::memory;
    case link_kind::lanes:
      return peer_channel::lanes;
    case link_kind::shared_memory:
      return peer_channel::shared_memory;
    case link_kind::unix_socket:
      return peer_channel::unix_socket;
    case link_kind::tcp:
      return peer_channel::tcp;
    case link_kind::carried:
      return peer_channel::nats;
    case link_kind::relayed:
      break;
  }
  return peer_channel::relayed;
}

peer_relation relation_of(relation as) noexcept {
  switch (as) {
    case relation::peer:
      break;
    case relation::child:
      return peer_relation::child;
    case relation::parent:
      return peer_relation::parent;
    case relation::sibling:
      return peer_relation::sibling;
  }
  return peer_relation::peer;
}

std::uint64_t since_1970(std::chrono::system_clock::time_point at) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

}  // namespace

void node_core::describe(peer& of, peer_report& into) const {
  session* const path = of.current != nullptr ? of.current : of.left_behind;
  into.id = of.id;
  into.incarnation = of.instance.incarnation;
  into.relation = node_.is_client(of) ? peer_relation::client : relation_of(of.as);
  into.channel = path != nullptr ? channel_of(path->at.kind()) : peer_channel::none;
  into.away = path != nullptr && path->stage == session_stage::away;
  into.encrypted = path != nullptr && path->encrypted;
  into.wanted = of.wanted;
  if (path != nullptr && path->address.empty())
    path->address = path->at.peer();
  if (path != nullptr)
    into.address = path->address;
  else
    into.address.clear();
  into.sent = of.out.accepted() - of.numbers_before;
  into.sent_bytes = of.counts.sent_bytes;
  into.received = of.counts.received;
  into.received_bytes = of.counts.received_bytes;
  // What goes over the direct paths is counted when they are closed.
  if (&of == output_.direct_peer()) {
    into.sent += output_.path().messages;
    into.sent_bytes += output_.path().bytes;
  }
  if (&of == receive_.source()) {
    into.received += receive_.messages();
    into.received_bytes += receive_.bytes();
  }
  into.would_block = of.counts.would_block;
  into.undelivered = of.counts.undelivered;
  into.queued_messages = of.out.held_messages();
  into.queued_bytes = of.out.held_bytes() + (path != nullptr ? path->at.queued() : 0);
  of.counts.queued_bytes_most = std::max(of.counts.queued_bytes_most, into.queued_bytes);
  into.queued_bytes_most = of.counts.queued_bytes_most;
  into.links = of.counts.links;
  into.links_lost = of.counts.links_lost;
  into.last_loss = of.counts.last_loss;
  into.last_loss_at = since_1970(of.counts.last_loss_at);
  into.round_trip = of.round_trip;
  into.round_trips = of.counts.round_trips;
}

void node_core::report(node_report& into) {
  into.id = node_.self.id;
  into.incarnation = node_.self.incarnation;
  into.parent = tree_.parent();
  into.pid = static_cast<std::uint32_t>(getpid());
  into.program = program_invocation_short_name;
  into.version = build_settings::version;
  into.started_at = since_1970(started_at_);
  into.updated_at = since_1970(std::chrono::system_clock::now());
  into.addresses = registration_.addresses();
  into.message_limit = node_.options.message_limit();
  into.stats = stats();
  into.handling = handling_;
  into.peers.resize(peers_.all().size() + peers_.clients().size());
  into.peers_in_all = into.peers.size();
  std::size_t at = 0;
  for (const auto& [id, one] : peers_.all())
    describe(*one, into.peers[at++]);
  for (const auto& one : peers_.clients())
    describe(*one, into.peers[at++]);
  std::ranges::sort(into.peers, {}, &peer_report::id);
}

std::uint64_t node_core::progress() const noexcept {
  const node_stats all = stats();
  return all.accepted + all.delivered + all.relayed + all.would_block + all.registrations +
         all.registrations_failed + all.links_lost + all.not_delivered + all.outcome_unknown +
         registration_.addresses().size();
}

void node_core::measure(std::chrono::nanoseconds since) {
  constexpr std::uint64_t one_of = 16;
  const std::size_t told = node_.progress.told;
  if (told != 0 && polls_++ % one_of == 0)
    handling_.add((node_.now() - since) / static_cast<std::int64_t>(told), told);
}

}  // namespace atbus::detail
