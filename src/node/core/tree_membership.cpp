#include "node/core/tree_membership.h"

#include <string>
#include <utility>

#include "node/route/relation_rules.h"

namespace atbus::detail {

error tree_membership::dial_parent() {
  for (const std::string& text : node_.options.parents()) {
    if (error bad = dialing_.start_dial(parent_.dials, nullptr, *address::parse(text), false);
        !bad) {
      dialing_.end_dials(parent_.dials);
      return bad;
    }
  }
  return {};
}

bus_id tree_membership::parent() const noexcept {
  return routes_.parent() != nullptr ? routes_.parent()->id : bus_id{};
}

relation tree_membership::dialled_as(const session& on) const noexcept {
  if (!on.is_direct)
    return relation::peer;
  const bool is_to_parent = on.dialled != nullptr && on.dialled->of == nullptr;
  if (is_to_parent && on.of == nullptr)
    return relation::parent;
  // One that returns asks for the place that it gave, unless another node has that now.
  if (on.of != nullptr && on.of->as == relation::peer) {
    if (on.as == relation::sibling)
      return relation::sibling;
    if (on.as == relation::parent && routes_.parent() == nullptr)
      return relation::parent;
  }
  const peer* const of = on.dialled != nullptr && !is_to_parent ? on.dialled->of : on.of;
  if (of != nullptr && of->as == relation::peer && on.dialled != nullptr)
    return on.dialled->as;
  return of != nullptr ? of->as : relation::peer;
}

error tree_membership::check_place(const session& on, const peer_identity& who) {
  if (who.as == relation::peer)
    return {};
  const auto refuse = [&](const std::string& why) {
    return error{errc::denied, "node " + who.id.to_string() + " can't be a " +
                                   std::string{name(who.as)} + " of node " +
                                   node_.self.id.to_string() + ": " + why};
  };
  if (who.id == bus_id{} || node_.is_client())
    return refuse("a client has no place in a tree");
  if (!on.is_direct)
    return refuse("there are others between them");
  if (const peer* const known = peers_.find(who.id);
      known != nullptr && known->as != relation::peer && known->as != who.as)
    return refuse("it is a " + std::string{name(known->as)} + " of it");
  if (who.as == relation::parent) {
    if (const peer* const other = routes_.parent();
        other != nullptr && other->id != who.id && reachability::is_there(*other))
      return refuse("node " + other->id.to_string() + " is its parent");
    if (!on.by_us && (parent_.last == nullptr || parent_.last->id != who.id))
      return refuse("a parent is dialled by its children");
  }
  return check_relation(routes_, who);
}

void tree_membership::place(peer& of, const peer_identity& who) {
  // The range of a peer was not checked: beside another link it must not widen what that one said.
  const bool is_beside = who.as == relation::peer && of.as != relation::peer &&
                         of.instance.incarnation == who.incarnation;
  const bool was_parent = of.as == relation::parent;
  if (!is_beside) {
    of.as = who.as;
    of.range = who.range;
  }
  of.addresses = who.addresses;
  of.host = who.host;
  if (of.as == relation::sibling)
    sibling_search_.set_reached(of.id);
  peer* const parent_away = of.as == relation::parent ? routes_.parent() : nullptr;
  if (parent_away != nullptr && parent_away != &of) {
    routes_.remove(*parent_away);
    parent_away->as = relation::peer;
    sibling_search_.parent_lost();
  }
  routes_.put(of);
  if (was_parent && of.as != relation::parent)
    search_parent();  // the next incarnation has dialled this node, as a peer
  // A circuit to it that is just registering would go over this link, and have it wait meanwhile.
  for (dial& one : of.dials) {
    if (!one.is_relayed())
      continue;
    one.again.cancel();
    if (one.at != nullptr && one.at->of == nullptr)
      sessions_.drop(*one.at, false, errc::ok, {});
  }
  retention_.ways_changed();
  if (of.as != relation::parent || parent_.last == &of)
    return;
  // Another one has taken the parent's place.
  peer* const before = std::exchange(parent_.last, &of);
  if (before != nullptr && before->sessions.empty())
    retention_.let_go(*before);
}

void tree_membership::displace(peer& of) {
  if (routes_.remove(of))
    retention_.ways_changed();
  const relation was = std::exchange(of.as, relation::peer);
  if (reachability::has_place(of))
    routes_.put(of);  // as a peer
  if (was == relation::parent)
    search_parent();
}

void tree_membership::search_parent() {
  sibling_search_.parent_lost();
  // One that came back while another node was the parent is a peer, through a dial of the parent's.
  for (const dial& one : parent_.dials) {
    session* const at = one.at;
    if (routes_.parent() == nullptr && at != nullptr && at->stage == session_stage::registered &&
        at->of != nullptr && at->of->as == relation::peer)
      sessions_.drop(*at, true, errc::ok, "register again as the parent");
  }
  dialing_.dial_again(parent_.dials);
}

}  // namespace atbus::detail
