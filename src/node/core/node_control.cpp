// Control messages between two nodes that are registered.
#include <cstring>
#include <utility>

#include "core/text.h"
#include "node/core/node_core.h"

namespace atbus::detail {

void node_core::control(session& from, const message_head& head, bytes_view message) {
  const auto read = [&](auto& body) {
    error bad = decode(message, body);
    if (!bad)
      violation(from, std::move(bad));
    return from.stage != session_stage::dropped;
  };
  switch (head.kind) {
    case message_kind::where:
      if (where_body body; read(body))
        answer_where(from, body);
      return;
    case message_kind::found:
      if (found_body body; read(body))
        dial_sibling(from, body);
      return;
    case message_kind::acknowledge:
      if (acknowledge_body body; read(body))
        acknowledged(from, body.handled);
      return;
    case message_kind::ping:
      if (ping_body body; read(body))
        say(from, pong_body{.number = body.number});
      return;
    case message_kind::pong:
      if (pong_body body; read(body) && body.number == from.ping_number && from.of != nullptr) {
        const std::chrono::nanoseconds took = on_.clock.now() - from.ping_sent;
        std::chrono::nanoseconds& smoothed = from.of->round_trip;
        // RFC 6298, section 2: an eighth of the new one.
        smoothed = smoothed.count() == 0 ? took : smoothed + (took - smoothed) / 8;
      }
      return;
    case message_kind::flow:
      if (flow_body body; read(body)) {
        if (from.of->in_from != &from) {
          // It was slower than what its sender has said on a later link.
          if (!from.of->in.move_to_path(body.turn))
            return drop(from, false, errc::superseded, {});
          from.of->in_from = &from;
        }
        if (from.shake != nullptr)
          both_registered(from);
        if (!from.of->in.announce(body.next, body.turn))
          violation(from, {errc::protocol_error,
                           "a flow goes back to number " + std::to_string(body.next)});
      }
      return;
    case message_kind::bye:
      if (bye_body body; read(body)) {
        if (from.of == nullptr || !is_client(*from.of))
          log_about(from.instance.id, from.at.peer() + " leaves: " + in_quotes(body.text));
        drop(from, false, body.reason, {});
      }
      return;
    case message_kind::addresses:
      if (addresses_body body; read(body)) {
        from.of->addresses = body.addresses;
        try_offers(*from.of, body.addresses, from.host);
      }
      return;
    default:
      if (is_ignorable(head.kind))
        return;
      violation(from, {errc::protocol_error, "a message of the handshake came after it"});
  }
}

status node_core::send_control(session& to, bytes_view message) {
  status why;
  std::byte* const at = claim_in(to, message.size(), message_purpose::control, why);
  if (at == nullptr)
    return why;
  std::memcpy(at, message.data(), message.size());
  to.at.commit(message.size());
  ++to.committed;
  return {};
}

}  // namespace atbus::detail
