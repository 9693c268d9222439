// Hands messages that have come to the user's handlers.
//
// One thread, from poll alone.
#pragma once

#include "atbus/trace_context.hpp"
#include "node/core/blob_exchange.h"
#include "node/core/command_exchange.h"
#include "node/core/event_queue.h"
#include "node/core/message_taps.h"
#include "node/core/request_exchange.h"

namespace atbus::detail {

class inbox {
 public:
  inbox(node_context& node, event_queue& events, message_taps& taps, command_exchange& commands,
        request_exchange& requests, blob_exchange& blobs) noexcept
      : node_(node),
        events_(events),
        taps_(taps),
        commands_(commands),
        requests_(requests),
        blobs_(blobs) {}

  void deliver(const node_instance& source, std::uint32_t type, bytes_view payload,
               bool redelivered, bool traced = false) {
    count(payload.size(), redelivered);
    if (node_.tapped) [[unlikely]]
      copy(source, 0, type, payload, redelivered);
    if (const auto& handler = events_.handlers().on_message)
      handler(message{source.id, node_.self.id, type, payload, redelivered, traced});
  }
  // Also a command, a request, the answer to one, or a part of a blob. `same_clock`: the source is on this host. False: it
  // makes no sense, or may not come from there.
  bool deliver_any(const node_instance& source, const message_head& head, bytes_view payload,
                   bool redelivered, bool same_clock) {
    const unsigned kind = head.flags & exchange_flags;
    const bool traced = (head.flags & flag_traced) != 0;
    if (traced && (payload.size() < trace_context::size || (kind != 0 && kind != flag_request)))
        [[unlikely]]
      return false;
    if (traced)
      payload = payload.first(payload.size() - trace_context::size);
    if (kind == 0 && source.id != bus_id{}) {
      deliver(source, head.type, payload, redelivered, traced);
      return true;
    }
    count(payload.size(), redelivered);
    if (is_blob(kind))
      return blobs_.deliver(source, head, payload, redelivered);
    if (node_.tapped) [[unlikely]]
      copy(source, head.flags & exchange_flags, head.type, payload, redelivered);
    return (head.flags & flag_request) != 0
               ? requests_.deliver(source, head, payload, redelivered, same_clock)
               : commands_.deliver(source, head, payload, redelivered);
  }

  // What has a handler of its own, and is one of the user's messages to all who count or look.
  void note(bus_id source, std::uint32_t type, bytes_view payload, bool redelivered) {
    count(payload.size(), redelivered);
    if (node_.tapped) [[unlikely]]
      copy({source, 0}, 0, type, payload, redelivered);
  }

 private:
  void copy(const node_instance& source, unsigned flags, std::uint32_t type, bytes_view payload,
            bool redelivered) noexcept {
    const unsigned mark = redelivered ? flag_redelivered : 0;
    taps_.copy({.flags = static_cast<std::uint8_t>(flags | mark), .type = type, .from = source.id},
               payload);
  }
  void count(std::size_t bytes, bool redelivered) noexcept {
    ++node_.stats.delivered;
    node_.stats.delivered_bytes += bytes;
    if (redelivered) [[unlikely]]
      ++node_.stats.redelivered;
    if (++node_.progress.told == node_.progress.most) [[unlikely]]
      node_.end_poll();
  }

  node_context& node_;
  event_queue& events_;
  message_taps& taps_;
  command_exchange& commands_;
  request_exchange& requests_;
  blob_exchange& blobs_;
};

}  // namespace atbus::detail
