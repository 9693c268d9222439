// Parent, children and siblings: dialling the parent, and who may be what to this node.
#include <algorithm>
#include <utility>

#include "node/core/node_core.h"
#include "node/route/relation_rules.h"

namespace atbus::detail {

error node_core::dial_parent() {
  for (const std::string& text : options_.parents()) {
    if (error bad = start_dial(parent_dials_, nullptr, *address::parse(text), false); !bad) {
      end_dials(parent_dials_);
      return bad;
    }
  }
  return {};
}

bus_id node_core::parent() const noexcept {
  return routes_.parent() != nullptr ? routes_.parent()->id : bus_id{};
}

relation node_core::dialled_as(const session& on) const noexcept {
  if (!on.is_direct)
    return relation::peer;
  if (on.dialled != nullptr && on.dialled->of == nullptr)
    return relation::parent;
  const peer* const of = on.dialled != nullptr ? on.dialled->of : on.of;
  if (of != nullptr && of->as == relation::peer && on.dialled != nullptr)
    return on.dialled->as;
  return of != nullptr ? of->as : relation::peer;
}

error node_core::check_place(const session& on, const peer_identity& who) {
  if (who.as == relation::peer)
    return {};
  const auto refuse = [&](const std::string& why) {
    return error{errc::denied, "node " + who.id.to_string() + " can't be a " +
                                   std::string{name(who.as)} + " of node " + self_.id.to_string() +
                                   ": " + why};
  };
  if (who.id == bus_id{} || is_client())
    return refuse("a client has no place in a tree");
  if (!on.is_direct)
    return refuse("there are others between them");
  if (const peer* const known = find(who.id);
      known != nullptr && known->as != relation::peer && known->as != who.as)
    return refuse("it is a " + std::string{name(known->as)} + " of it");
  if (who.as == relation::parent) {
    if (const bus_id other = parent(); other != bus_id{} && other != who.id)
      return refuse("node " + other.to_string() + " is its parent");
    if (!on.by_us && (parent_ == nullptr || parent_->id != who.id))
      return refuse("a parent is dialled by its children");
  }
  return check_relation(routes_, who);
}

void node_core::place(peer& of, const peer_identity& who) {
  // Of a peer nobody has checked the range: beside another link it must not widen what that one said.
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
  routes_.put(of);
  if (was_parent && of.as != relation::parent)
    search_parent();  // the next incarnation has dialled this node, as a peer
  // A circuit to it that is just registering would go over this link, and have it wait meanwhile.
  for (dial& wish : of.dials) {
    if (!wish.is_relayed())
      continue;
    wish.again.cancel();
    if (wish.at != nullptr && wish.at->of == nullptr)
      drop(*wish.at, false, errc::ok, {});
  }
  ways_changed();
  if (of.as != relation::parent || parent_ == &of)
    return;
  // Another one has taken the parent's place.
  peer* const before = std::exchange(parent_, &of);
  if (before != nullptr && before->sessions.empty())
    let_go(*before);
}

bool node_core::gives_place(const session& link, const peer& of) noexcept {
  return link.is_direct && (of.as == relation::peer || link.as == of.as);
}

bool node_core::has_place(const peer& of) noexcept {
  return std::ranges::any_of(of.sessions,
                             [&](const session* one) { return gives_place(*one, of); });
}

void node_core::displace(peer& of) {
  if (routes_.remove(of))
    ways_changed();
  const relation was = std::exchange(of.as, relation::peer);
  if (has_place(of))
    routes_.put(of);  // as a peer
  if (was == relation::parent)
    search_parent();
}

void node_core::search_parent() {
  sibling_search_.parent_lost();
  dial_again(parent_dials_);
}

void node_core::end_wishes(peer& of) {
  of.wished = false;
  end_dials(of.dials);
  if (parent_ != &of)
    return;
  end_dials(parent_dials_);
  parent_ = nullptr;
}

}  // namespace atbus::detail
