// How long a peer is kept: while the user or the directory wants it, while it is linked, and for a time
// while something waits for it. And what becomes of what waits.
//
// One thread.
#pragma once

#include "node/core/dialing.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/route/circuit.h"

namespace atbus::detail {

class peer_retention {
 public:
  peer_retention(node_context& node, event_queue& events, peer_table& peers,
                 const reachability& reach, parent_search& parent, link_output& output,
                 session_set& sessions, dialing& dials, circuits& relayed)
      : node_(node),
        events_(events),
        peers_(peers),
        reach_(reach),
        parent_(parent),
        output_(output),
        sessions_(sessions),
        dialing_(dials),
        circuits_(relayed) {}

  // A peer was made: from now on its timers are looked after here.
  void made(peer& of);
  // The user or the directory wants to be connected to it: it is not forgotten while it is away.
  static void set_wanted(peer& of);
  // Neither wants that any more.
  void end_wanted(peer& of);
  [[nodiscard]] bool is_wanted(const peer& of) const noexcept {
    return of.wanted || parent_.last == &of;
  }
  // It has no link any more: its dials go on.
  void lost(peer& of);
  // Its process has ended, and its links wait for the next one, which may come another way: the same.
  void left(peer& of);
  // Unless it is wanted it is forgotten: at once, or when it has not come back in time.
  void let_go(peer& of);
  // What waits for it is reported; then, or by give_up() only what is not required.
  void abandon(peer& of, errc reason);
  void give_up(peer& of, errc reason);
  void forget(peer& of);

  // A message waits for it, and that is all that is known of it.
  [[nodiscard]] bool is_only_awaited(const peer& of) const noexcept;
  // A peer that was never met is given up in time, unless it comes or is wanted.
  void await_for_a_time(peer& of);
  // Begins to reach it over other nodes if they may know a way, and nothing better is under way.
  void seek(peer& of);
  // Links to other nodes have come or gone: all that wait are sought again.
  void ways_changed();
  void circuit_failed(peer& of, errc why, unsigned denials);

 private:
  node_context& node_;
  event_queue& events_;
  peer_table& peers_;
  const reachability& reach_;
  parent_search& parent_;
  link_output& output_;
  session_set& sessions_;
  dialing& dialing_;
  circuits& circuits_;
};

}  // namespace atbus::detail
