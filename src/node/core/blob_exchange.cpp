#include "node/core/blob_exchange.h"

namespace atbus::detail {

blob_exchange::blob_exchange(node_context& node, event_queue& events, access_control& access,
                             peer_table& peers, session_set& sessions, outbox& user,
                             link_output& output, peer_retention& retention,
                             directory_watch& directory)
    : node_(node),
      peers_(peers),
      sessions_(sessions),
      out_(node, parties_, peers, user, output, directory),
      in_(node, parties_, events, access, peers, user, retention) {
  parties_.on_lost([this](blob_party& of) {
    out_.lost(of);
    in_.lost(of);
  });
  in_.on_unsaid([this](const blob_id& which, std::uint32_t type) { unsaid(which, type); });
  output.on_room_for_blobs([this](peer& of) { forgotten(of.id); });
}

// The sender asks what became of it at the next registration.
void blob_exchange::unsaid(const blob_id& which, std::uint32_t type) {
  if (which.source == node_.self.id) {
    return out_.take(node_.self, type,
                     {.number = which.number, .step = blob_step::end, .status = errc::not_found},
                     {});
  }
  if (const peer* const of = peers_.find(which.source); of != nullptr && of->current != nullptr)
    sessions_.drop(*of->current, false, errc::out_of_memory, {});
}

bool blob_exchange::deliver(const node_instance& source, const message_head& head,
                            bytes_view payload, bool redelivered) {
  blob_head of;
  if (node_.is_client() || source.id == bus_id{} || (head.flags & flag_traced) != 0 ||
      !decode_blob(payload, of))
    return false;
  if ((head.flags & flag_reply) != 0)
    out_.take(source, head.type, of, payload);
  else
    in_.take(source, head.type, of, payload, redelivered);
  if (in_.has_untold())
    in_.tell();  // before the messages behind it
  return true;
}

void blob_exchange::undelivered(bus_id to, const held_message& what, errc reason) {
  if ((what.flags & flag_reply) != 0)
    in_.undelivered(to, what, reason);
  else
    out_.undelivered(to, what, reason);
}

void blob_exchange::registered(peer& of, bool knows_blobs) {
  if (!knows_blobs) {  // they would end the link
    of.out.drop_if([](const held_message& one) noexcept { return is_blob(one.flags); });
  }
  blob_party* const known = node_.is_client(of) ? nullptr : parties_.find(of.id);
  if (known == nullptr)
    return;
  known->lost.cancel();
  if (!knows_blobs)
    out_.give_up(*known);
  out_.registered(*known, of.instance);
  in_.registered(*known, of.instance);
}

// What waits there for its successor may be a beginning; a chunk is of no use to it.
void blob_exchange::left(const peer& of) {
  if (blob_party* const known = parties_.find(of.id); known != nullptr) {
    out_.lost(*known);
    in_.lost(*known);
  }
}

void blob_exchange::lost(const peer& of) {
  blob_party* const known = node_.is_client(of) ? nullptr : parties_.find(of.id);
  if (known == nullptr)
    return;
  if (!known->lost.pending())
    known->lost.set(node_.idle_deadline());
  // The questions wait for a link, and so one is sought: a circuit may have ended for want of traffic.
  out_.ask(*known);
  in_.ask(*known);
}

void blob_exchange::disconnected(bus_id id) {
  if (blob_party* const known = parties_.find(id); known != nullptr) {
    out_.leave(*known);
    in_.leave(*known);
  }
}

void blob_exchange::forgotten(bus_id id) noexcept {
  if (blob_party* const known = parties_.find(id); known != nullptr)
    parties_.set_ready(*known);
}

void blob_exchange::leave() {
  parties_.for_each([this](blob_party& one) {
    out_.leave(one);
    in_.leave(one);
  });
}

void blob_exchange::tell() {
  in_.tell();
  out_.tell();
}

bool blob_exchange::work(blob_party& with) {
  in_.work(with);
  const bool goes_on = out_.work(with);
  if (node_.closed)
    return false;
  if (with.id == node_.self.id)
    return goes_on || in_.waits(with);  // there is room when what waits now is told
  if (peer* const of = peers_.find(with.id); of != nullptr)
    of->blobs_wait = of->blobs_wait || out_.waits(with) || in_.waits(with);
  return goes_on;
}

void blob_exchange::work() {
  parties_.for_each_ready([this](blob_party& one) { return work(one); });
}

void blob_exchange::close() noexcept {
  in_.close();
  out_.close();
}

}  // namespace atbus::detail
