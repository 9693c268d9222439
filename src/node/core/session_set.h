// The sessions of a node, one for each of its links, from their opening to their end; and how far flows
// have come whose senders are away.
//
// One thread.
#pragma once

#include <functional>
#include <string_view>

#include "delivery/session_table.h"
#include "node/core/acknowledgements.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/peer_table.h"
#include "node/core/session_list.h"

namespace atbus::detail {

class session_set {
 public:
  session_set(node_context& node, session_list& all, event_queue& events, peer_table& peers,
              link_output& output, acknowledgements& acks, circuits& relayed)
      : node_(node),
        all_(all),
        events_(events),
        peers_(peers),
        output_(output),
        acknowledgements_(acks),
        circuits_(relayed),
        away_(node.options.sessions()) {}

  // What is done when a session's clock is due; set once, before the first session.
  void on_timer(std::function<void(session&)> call) { on_timer_ = std::move(call); }

  [[nodiscard]] const session_list& all() const noexcept { return all_; }
  session& make(link& at);
  // The link that was dialled has become another one while it opened.
  session& move(session& from, link& to);
  // Its link is gone.
  void end(session& gone) noexcept;

  // Ends the link, after a goodbye or not: closed() is told of it next.
  void drop(session& which, bool say_bye, errc reason, std::string_view text);
  // A handler has dropped the link that has brought its message: the goodbye acknowledges that message too, so it
  // is said once the handler is over.
  [[nodiscard]] bool owes_goodbyes() const noexcept { return owes_goodbyes_; }
  void say_owed_goodbyes() noexcept;
  // The other end breaks the protocol: counted, logged and dropped.
  void violation(session& by, error what);
  // Its queue is full and its policy is to disconnect: the next poll drops it, which takes memory.
  void set_too_slow(session& which) noexcept { which.too_slow = has_too_slow_ = true; }
  [[nodiscard]] bool has_too_slow() const noexcept { return has_too_slow_; }
  void drop_too_slow();

  // How far flows to this node have come whose sender has no session.
  [[nodiscard]] session_table& away() noexcept { return away_; }
  [[nodiscard]] const session_table& away() const noexcept { return away_; }
  // The handshake of `on` speaks of the flow of that incarnation.
  void prepare_flow(session& on, const node_instance& instance);
  // Whether this incarnation has messages of that sender, or was told where they begin.
  [[nodiscard]] bool has_heard_of(const node_instance& sender) noexcept;

 private:
  void give_back_flow(session& gone) noexcept;
  void say_goodbye(session& to, bytes_view words) noexcept;

  node_context& node_;
  session_list& all_;
  event_queue& events_;
  peer_table& peers_;
  link_output& output_;
  acknowledgements& acknowledgements_;
  circuits& circuits_;
  std::function<void(session&)> on_timer_;
  session_table away_;
  bool has_too_slow_ = false;
  bool owes_goodbyes_ = false;
};

}  // namespace atbus::detail
