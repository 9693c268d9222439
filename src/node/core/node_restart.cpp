// Shared memory with a name outlives its process: what a sender does meanwhile, and what the next incarnation
// of the receiver is handed.
#include <utility>

#include "node/core/node_core.h"

namespace atbus::detail {

void node_core::left(link& at) {
  session* const of = session_of(at);
  if (closed_ || of == nullptr || of->of == nullptr)
    return;
  close_ways();
  if (is_client(*of->of))
    return drop(*of, false, errc::peer_closed, {});  // whose successor would be anybody
  of->stage = session_stage::away;
  of->shared = of->wants_share = false;  // no batches go there: nobody would hand out shares
  tell_event(*of->of, endpoint_event::away);
  of->of->told_connected = false;
}

// What is sent from here on waits until its new incarnation has registered.
void node_core::recalling(link& at) {
  session* const of = session_of(at);
  if (closed_ || of == nullptr || of->of == nullptr || of->of->current != of)
    return;
  close_ways();
  of->of->current = nullptr;
  of->of->left_behind = of;
}

void node_core::returned(link& at) {
  session* const of = session_of(at);
  if (closed_ || of == nullptr || of->stage == session_stage::dropped)
    return;
  close_ways();
  of->by_us = true;
  if (of->of != nullptr && of->of->current == of)
    of->of->current = nullptr;  // nothing of the user's goes there before it has registered
  begin_handshake(*of);
  if (of->of == nullptr || of->of->left_behind != of)
    return;
  of->of->left_behind = nullptr;
  if (of->of->next != nullptr && of->of->next->stage == session_stage::registered)
    use(*of->of, *of->of->next, true);
}

// Whether this incarnation has messages of that sender, or was told where they begin.
bool node_core::has_heard_of(const node_instance& sender) noexcept {
  if (const peer* const of = find(sender); of != nullptr && of->instance == sender)
    return of->in.has_begun();
  for (const auto& one : sessions_) {
    if (one->has_flow && one->flow_of == sender)
      return one->flow.has_begun();
  }
  const incoming_flow* const past = away_.find(sender);
  return past != nullptr && past->has_begun();
}

bool node_core::inherited(const node_instance& source, bytes_view message, bool redelivered,
                          bool awaited) {
  close_ways();
  message_head head;
  if (closed_ || decode(message, head) != head_fault::none || head.kind != message_kind::data)
    return true;  // control messages of an earlier incarnation mean nothing to this one
  // Later ones can have come only if the sender is gone, or has given these up.
  if (!awaited && has_heard_of(source)) {
    log_cause(errc::superseded,
              "messages of " + source.id.to_string() +
                  " to an earlier incarnation of this node are left out: later ones " +
                  "have come before them");
    return true;
  }
  if (has_expired(head, payload_of(message))) {
    log_cause(errc::timed_out, "a command of " + source.id.to_string() +
                                   " to an earlier incarnation of this node is not carried out: " +
                                   "its time is over");
    return true;
  }
  if (!tell_events_before_message(nullptr))
    return false;
  (void)deliver_any(source, head, payload_of(message),
                    redelivered || (head.flags & flag_redelivered) != 0);
  return true;
}

}  // namespace atbus::detail
