// Messages to all nodes of a range: one copy for each link, handed on from node to node.
//
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "atbus/id_range.hpp"
#include "node/core/access_control.h"
#include "node/core/acknowledgements.h"
#include "node/core/inbox.h"
#include "node/core/outbox.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/route/broadcast_history.h"
#include "node/route/circuit.h"
#include "node/route/route_table.h"

namespace atbus::detail {

struct broadcast_head;

class broadcasts {
 public:
  broadcasts(node_context& node, event_queue& events, access_control& access,
             const route_table& routes, const reachability& reach, outbox& user,
             link_output& output, acknowledgements& acks, session_set& sessions, inbox& delivery,
             next_hops& answers)
      : node_(node),
        events_(events),
        access_(access),
        routes_(routes),
        reach_(reach),
        outbox_(user),
        output_(output),
        acknowledgements_(acks),
        sessions_(sessions),
        inbox_(delivery),
        answers_(answers) {}

  // To every node of the range that there is a way to now, but this one; not acknowledged. no_route:
  // there is no link that leads to any; would_block: none of these has room.
  status send(const id_range& to, std::uint32_t type, bytes_view payload) {
    return start(to, type, payload, false);
  }
  // Calls back once, after `timeout`, with the nodes that were reached and said so.
  using reached_handler = std::function<void(const std::vector<bus_id>&)>;
  status send(const id_range& to, std::uint32_t type, bytes_view payload,
              std::chrono::nanoseconds timeout, reached_handler call);

  // A broadcast has come over that link.
  void take(session& from, bytes_view message);
  // That node says that this one's broadcast has reached it.
  void reached(std::uint64_t number, bus_id whom);

 private:
  struct fan_out {
    unsigned links = 0;  // that lead to ids of the range,
    unsigned sent = 0;   // and that had room
    status refused{};    // why others had none; a link that is full may have room later
  };
  struct wait {
    std::uint64_t number = 0;
    std::set<bus_id> reached;
    reached_handler call;
    std::unique_ptr<timer> clock;
  };

  status start(const id_range& to, std::uint32_t type, bytes_view payload, bool answers);
  fan_out spread(const broadcast_head& head, bytes_view message, const peer* from) noexcept;
  status copy_to(session& path, const broadcast_head& head, bytes_view message) noexcept;
  void over(std::uint64_t number);

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  const route_table& routes_;
  const reachability& reach_;
  outbox& outbox_;
  link_output& output_;
  acknowledgements& acknowledgements_;
  session_set& sessions_;
  inbox& inbox_;
  next_hops& answers_;
  byte_buffer scratch_;
  std::vector<std::unique_ptr<wait>> awaited_;
  std::uint64_t last_number_ = 0;
  broadcast_history seen_;
};

}  // namespace atbus::detail
