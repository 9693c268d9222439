// Blobs: those that this node sends, those that it takes, and when there is work for either.
//
// What is over is told at the beginning of a poll; what is to be sent leaves at its end, behind all messages.
// doc/design/blobs.md. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "node/core/incoming_blobs.h"
#include "node/core/outgoing_blobs.h"
#include "node/core/session_set.h"

namespace atbus::detail {

class blob_exchange {
 public:
  blob_exchange(node_context& node, event_queue& events, access_control& access, peer_table& peers,
                session_set& sessions, outbox& user, link_output& output, peer_retention& retention,
                directory_watch& directory);

  // See the functions of node.
  blob_handle send(bus_id to, std::uint32_t type, blob_source source,
                   std::function<void(const blob_outcome&)> call, const blob_options& options) {
    return out_.send(to, type, std::move(source), std::move(call), options);
  }
  status cancel(const blob_handle& which) { return out_.cancel(which); }
  status resume(const blob_id& which) { return in_.resume(which); }
  status refuse(const blob_id& which, std::string_view why) { return in_.refuse(which, why); }

  // A message of a blob has come. False: it is malformed, or may not come from there.
  bool deliver(const node_instance& source, const message_head& head, bytes_view payload,
               bool redelivered);
  void undelivered(bus_id to, const held_message& what, errc reason);
  // That peer has registered, and may not know blobs; its process has ended; it has no link any more; the user disconnects it;
  // nothing is known of it any more.
  void registered(peer& of, bool knows_blobs);
  void left(const peer& of);
  void lost(const peer& of);
  void disconnected(bus_id id);
  void forgotten(bus_id id) noexcept;

  void tell();
  void work();
  [[nodiscard]] bool has_work() const noexcept {
    return parties_.has_ready() || out_.has_untold() || in_.has_untold();
  }
  [[nodiscard]] bool settled() const noexcept { return out_.settled(); }
  // The node takes leave of all.
  void leave();
  void close() noexcept;

 private:
  // A blob is over, and there is no memory to say so or to remember it.
  void unsaid(const blob_id& which, std::uint32_t type);
  // True: there is more to do at once.
  bool work(blob_party& with);

  node_context& node_;
  peer_table& peers_;
  session_set& sessions_;
  blob_parties parties_{node_};
  outgoing_blobs out_;
  incoming_blobs in_;
};

}  // namespace atbus::detail
