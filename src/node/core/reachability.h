// Which link leads to another node, and whether there is a way to an id at all.
//
// Allocates nothing. One thread.
#pragma once

#include <list>

#include "node/core/node_context.h"
#include "node/peer/session.h"
#include "node/route/route_table.h"

namespace atbus::detail {

// How this node looks for its parent, whose id is not known in advance.
struct parent_search {
  // One for each address in the options, and for each that a directory has named while it was lost.
  std::list<dial> dials;
  peer* last = nullptr;  // the parent, or the last one: it stays wanted while it is away
};

class reachability {
 public:
  reachability(const node_context& node, const route_table& routes,
               const parent_search& parent) noexcept
      : node_(node), routes_(routes), parent_(parent) {}

  // The session to use towards a linked peer; null: none is registered.
  [[nodiscard]] session* link_to(const peer& next) const noexcept;
  // Whether `left` is the better one of two links to one incarnation; both ends say the same.
  [[nodiscard]] bool better(const session& left, const session& right) const noexcept;
  // Whether that link was opened as what the peer is to this node. Only there it takes what is not this
  // node's own: of another link it may not know yet what they are to each other.
  [[nodiscard]] static bool gives_place(const session& link, const peer& of) noexcept {
    return link.is_direct && (of.as == relation::peer || link.as == of.as);
  }
  // A link that does. One that is away counts for a child and for the parent only: what is sent below a
  // child has no other way, and the parent stays what it is until another node takes its place.
  [[nodiscard]] static bool has_place(const peer& of) noexcept;
  // Whether a link leads there now. The process at the other end of one that is away has ended.
  [[nodiscard]] static bool is_there(const peer& of) noexcept;

  // Whether other nodes may know a way there, now or when the parent is back.
  [[nodiscard]] bool is_reachable(bus_id id) const noexcept {
    return id != bus_id{} &&
           (routes_.next(id, nullptr) != nullptr || (awaits_parent() && !routes_.is_ours(id)));
  }
  // Whether there may ever be a way there: it is not for nodes without a tree.
  [[nodiscard]] bool may_become_reachable(bus_id id) const noexcept {
    return is_reachable(id) || (id != bus_id{} && routes_.own() && routes_.own()->contains(id));
  }
  [[nodiscard]] bool awaits_parent() const noexcept {
    return !parent_.dials.empty() && routes_.parent() == nullptr;
  }
  // Neither a token nor the kernel has proven which process is at its other end.
  [[nodiscard]] bool is_unproven_link(const session& from) const noexcept {
    return node_.tokens.empty() && from.at.trust() == link_trust::unproven;
  }

 private:
  const node_context& node_;
  const route_table& routes_;
  const parent_search& parent_;
};

}  // namespace atbus::detail
