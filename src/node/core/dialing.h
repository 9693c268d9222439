// Dial attempts: begun, repeated with a growing delay, ended. To addresses, and over other nodes.
//
// One thread.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "node/core/event_queue.h"
#include "node/core/node_context.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/route/circuit.h"
#include "node/route/route_table.h"

namespace atbus::detail {

class dialing {
 public:
  dialing(node_context& node, event_queue& events, const route_table& routes,
          const parent_search& parent, session_set& sessions, circuits& relayed)
      : node_(node),
        events_(events),
        routes_(routes),
        parent_(parent),
        sessions_(sessions),
        circuits_(relayed) {}

  // Adds a dial to the list and dials at once. Without an address: over other nodes. An error is one of
  // the address; then nothing was added.
  error start_dial(std::list<dial>& among, peer* of, std::optional<address> to, bool offered);
  // After a while, unless there is another link meanwhile.
  void dial_again(dial& which);
  // Those that are not under way.
  void dial_again(std::list<dial>& idle);
  void end_dials(std::list<dial>& all);
  // Dials those addresses of the peer that `is_useful`, up to a limit; not those that are dialled already.
  void dial_offered(peer& of, const std::vector<std::string>& addresses, relation as,
                    const std::function<bool(const address&)>& is_useful);
  // Dials those that are better than the current link, of a peer on the same host.
  void try_offers(peer& of, const std::vector<std::string>& addresses, const host_identity& host);

  // For a log line. The reason mostly begins with the place.
  [[nodiscard]] static std::string at_place(const std::string& where, const error& why);

 private:
  error dial_now(dial& which);

  node_context& node_;
  event_queue& events_;
  const route_table& routes_;
  const parent_search& parent_;
  session_set& sessions_;
  circuits& circuits_;
};

}  // namespace atbus::detail
