// Whether the other end of a link still lives, where no lock and no end-of-file tells.
//
// One thread.
#pragma once

#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/session_set.h"

namespace atbus::detail {

class liveness {
 public:
  liveness(node_context& node, event_queue& events, link_output& output, session_set& sessions)
      : node_(node), events_(events), output_(output), sessions_(sessions) {}

  // The session's clock is due.
  void timer_due(session& of);
  // Another process wants to register with the id of that session's peer: it has two seconds to be heard.
  void probe(session& of);
  // It has answered a ping.
  void answered(const session& from, std::uint64_t number);

 private:
  void ping(session& of);
  static void begin_to_listen(session& of) noexcept;
  [[nodiscard]] bool is_idle(session& over_nodes) const;

  node_context& node_;
  event_queue& events_;
  link_output& output_;
  session_set& sessions_;
};

}  // namespace atbus::detail
