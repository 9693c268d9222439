// Children of one parent that speak to each other, or whose own children do: the parent tells them
// where the other one listens, and they are linked. What it does not tell, or can't be reached, goes on
// by way of the parent.
//
// One thread.
#pragma once

#include <string>

#include "node/core/access_control.h"
#include "node/core/dialing.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/peer/sibling_search.h"
#include "node/route/route_table.h"

namespace atbus::detail {

class sibling_links {
 public:
  sibling_links(node_context& node, event_queue& events, const access_control& access,
                const route_table& routes, const reachability& reach, sibling_search& search,
                peer_table& peers, link_output& output, session_set& sessions, dialing& dials,
                peer_retention& retention);

  // A circuit's message goes up: there may be a sibling that is nearer. Allocates nothing.
  void ask_where(bus_id id, session& parent) noexcept;
  // A child asks.
  void answer_where(session& from, const where_body& asked);
  // The parent has answered.
  void dial_sibling(session& from, const found_body& answer);
  // It is dialled again when the parent is asked for it again.
  void end_sibling_dial(peer& whom, const dial& which, const std::string& why);
  [[nodiscard]] static bool dials_sibling(const session& on) noexcept {
    return on.dialled != nullptr && on.dialled->is_to_sibling();
  }

 private:
  void give_up_sibling(peer& whom, const std::string& why);

  node_context& node_;
  event_queue& events_;
  const access_control& access_;
  const route_table& routes_;
  const reachability& reach_;
  sibling_search& sibling_search_;
  peer_table& peers_;
  link_output& output_;
  session_set& sessions_;
  dialing& dialing_;
  peer_retention& retention_;
  byte_buffer question_;  // to the parent, with room for it
};

}  // namespace atbus::detail
