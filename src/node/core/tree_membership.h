// Parent, children and siblings: dialling the parent, and who may be what to this node.
//
// One thread.
#pragma once

#include "node/core/dialing.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/peer/sibling_search.h"
#include "node/route/route_table.h"

namespace atbus::detail {

class tree_membership {
 public:
  tree_membership(node_context& node, route_table& routes, parent_search& parent,
                  sibling_search& siblings, peer_table& peers, session_set& sessions,
                  dialing& dials, peer_retention& retention)
      : node_(node),
        routes_(routes),
        parent_(parent),
        sibling_search_(siblings),
        peers_(peers),
        sessions_(sessions),
        dialing_(dials),
        retention_(retention) {}

  error dial_parent();
  // 0: none is registered.
  [[nodiscard]] bus_id parent() const noexcept;
  // What the other end is to be to this node.
  [[nodiscard]] relation dialled_as(const session& on) const noexcept;
  // Why `who` can't be to this node what it says.
  [[nodiscard]] error check_place(const session& on, const peer_identity& who);
  // It has registered: messages to it and to those below it may go there.
  void place(peer& of, const peer_identity& who);
  // It has no link any more that gave it its place.
  void displace(peer& of);

 private:
  void search_parent();

  node_context& node_;
  route_table& routes_;
  parent_search& parent_;
  sibling_search& sibling_search_;
  peer_table& peers_;
  session_set& sessions_;
  dialing& dialing_;
  peer_retention& retention_;
};

}  // namespace atbus::detail
