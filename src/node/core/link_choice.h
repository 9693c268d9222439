// Which of a peer's links its messages take, when they move to a better one, and what a lost one leaves.
//
// One thread.
#pragma once

#include <list>
#include <vector>

#include "node/core/blob_exchange.h"
#include "node/core/command_exchange.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/peer_retention.h"
#include "node/core/reachability.h"
#include "node/core/ready_waits.h"
#include "node/core/request_exchange.h"
#include "node/core/session_set.h"
#include "node/route/circuit.h"

namespace atbus::detail {

class link_choice {
 public:
  link_choice(node_context& node, event_queue& events, ready_waits& ready,
              const reachability& reach, link_output& output, session_set& sessions,
              peer_retention& retention, command_exchange& commands, request_exchange& requests,
              blob_exchange& blobs, circuits& relayed)
      : node_(node),
        events_(events),
        ready_(ready),
        reach_(reach),
        output_(output),
        sessions_(sessions),
        retention_(retention),
        commands_(commands),
        requests_(requests),
        blobs_(blobs),
        circuits_(relayed) {}

  // A link has registered: it is used now, later, or not at all.
  void choose(peer& of, session& fresh);
  // `settled`: nothing that was sent before is open.
  void use(peer& of, session& path, bool settled);
  // That link has ended: what it leaves is sent again over the next one, or reported.
  void path_ended(peer& of, session& gone);
  // Moves each peer to its next link, once all of the current one is settled; then ends the links
  // that are not used.
  void move_settled();
  // When to look at these again; `never`: there is no need, an event tells.
  [[nodiscard]] std::chrono::nanoseconds next_look() const noexcept;
  void forget(const peer& of) { std::erase(moving_, &of); }

 private:
  void begin_use(peer& of, session& path, bool settled);
  void superseded(peer& of, session& path);
  void list_moving(peer& of);
  void move_if_settled(peer& of);
  [[nodiscard]] std::list<held_message> take_left(peer& of, session& gone);

  node_context& node_;
  event_queue& events_;
  ready_waits& ready_;
  const reachability& reach_;
  link_output& output_;
  session_set& sessions_;
  peer_retention& retention_;
  command_exchange& commands_;
  request_exchange& requests_;
  blob_exchange& blobs_;
  circuits& circuits_;
  std::vector<peer*> moving_;
};

}  // namespace atbus::detail
