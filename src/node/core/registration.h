// How two nodes come to know each other on a link: introductions, admission, and what a registered link
// changes.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "node/core/access_control.h"
#include "node/core/dialing.h"
#include "node/core/event_queue.h"
#include "node/core/link_choice.h"
#include "node/core/liveness.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/refusal_delay.h"
#include "node/core/session_set.h"
#include "node/core/sibling_links.h"
#include "node/core/tree_membership.h"
#include "node/route/route_table.h"
#include "protocol/handshake.h"

namespace atbus::detail {

class registration {
 public:
  registration(node_context& node, event_queue& events, access_control& access, peer_table& peers,
               const route_table& routes, const reachability& reach, link_output& output,
               session_set& sessions, dialing& dials, tree_membership& tree, liveness& alive,
               link_choice& choice)
      : node_(node),
        events_(events),
        access_(access),
        peers_(peers),
        routes_(routes),
        reach_(reach),
        output_(output),
        sessions_(sessions),
        dialing_(dials),
        tree_(tree),
        liveness_(alive),
        choice_(choice) {}

  // The link is open.
  void begin_handshake(session& on);
  // A message of the handshake has come.
  void advance(session& on, bytes_view message);
  // The other end has said that it has registered this one too. A link that it offers may be there
  // sooner, and would end this one.
  void both_registered(session& on);

  // That link is gone. If it has not registered, those end that were to give way to it.
  void ended(const session& gone);

  // Where this node listens, as it tells its peers.
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  void add_address(const std::string& made);
  // To those that had no room for them before.
  void say_owed_addresses();

 private:
  template <class Step>
  void take_or_drop(session& on, Step&& step);
  void begin(session& on);
  void take(session& on, bytes_view message);
  // `as`: what this node is to the other end.
  [[nodiscard]] introduction introduce(relation as);
  [[nodiscard]] error check_name(const session& on, bus_id id);
  result<resume_point> admit(session& on, const peer_identity& who);
  [[nodiscard]] std::chrono::nanoseconds delay_of_refusal(const session& on);
  void registered(session& on);
  void failed(session& on, std::chrono::nanoseconds delay);
  void tell_refused(const session& on, peer& of, errc why);
  // The peer speaks on that session from now on: its flow continues, or a new one begins.
  void take_over_flow(session& on, peer& of);
  // What the other end no longer has ends here too. Whether this link is the only one.
  [[nodiscard]] bool end_others(session& on, peer& of);
  void say_addresses();

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  peer_table& peers_;
  const route_table& routes_;
  const reachability& reach_;
  link_output& output_;
  session_set& sessions_;
  dialing& dialing_;
  tree_membership& tree_;
  liveness& liveness_;
  link_choice& choice_;
  refusal_delay refusal_delay_;
  std::vector<std::string> addresses_;
  bool owes_addresses_ = false;  // some session does
};

}  // namespace atbus::detail
