// What the file of access rules allows: read when the node is made, and again whenever it has changed. Without
// such a file everything is allowed.
//
// What the rules refuse is counted, and logged once a minute for each node and class of messages. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/log_limit.h"
#include "node/access/access_rules.h"
#include "node/core/event_queue.h"
#include "node/core/node_context.h"
#include "node/files/watched_file.h"
#include "node/peer/peer.h"
#include "node/peer/session.h"
#include "protocol/handshake.h"
#include "protocol/message_head.h"

namespace atbus::detail {

// Of a message with these exchange_flags; not of an answer.
[[nodiscard]] constexpr message_class class_of(unsigned exchange) noexcept {
  return exchange == flag_request   ? message_class::request
         : exchange == flag_command ? message_class::command
                                    : message_class::message;
}

class access_control {
 public:
  access_control(node_context& node, event_queue& events) : node_(node), events_(events) {}

  // Reads the file of the options, if they name one. `changed` is called when other rules hold from now on.
  // Errors: those of the file; then the node can't be used.
  error open(std::function<void()> changed);

  // What this node's user sends. Not ok: denied, and it is counted.
  [[nodiscard]] status check_sent(bus_id to, message_class what, std::uint32_t type) noexcept {
    return may_send(node_.self.id, to, what, type) ? status{} : refuse(to);
  }
  [[nodiscard]] status check_command_sent(bus_id to, std::string_view name) noexcept {
    return !rules_ || rules_->may_command(node_.self.id, to, name) ? status{} : refuse(to);
  }
  // Whether it would admit that: nothing is counted.
  [[nodiscard]] bool would_admit(bus_id from, message_class what, std::uint32_t type) noexcept {
    return may_send(from, node_.self.id, what, type);
  }
  // What has come. False: it is refused, counted and logged.
  [[nodiscard]] bool admits(bus_id from, message_class what, std::uint32_t type) noexcept;
  [[nodiscard]] bool admits_command(bus_id from, std::string_view name) noexcept;
  // Of this node's user, or on its way through this node.
  [[nodiscard]] bool lets_broadcast(bus_id from, const id_range& to, std::uint32_t type) noexcept;
  // A copy of what that node has published, to the node at the other end of a link.
  [[nodiscard]] bool lets_copy(bus_id publisher, bus_id to, std::uint32_t type) noexcept {
    return may_send(publisher, to, message_class::message, type) || bool{refuse(to)};
  }
  // Whether messages of circuits between these two may pass through this node.
  [[nodiscard]] bool lets_pass(bus_id from, bus_id to) noexcept;
  // Whether these two, and those below them, may have a link of their own, where no relay sees what they say:
  // all of the one may meet all of the other.
  [[nodiscard]] bool lets_meet(const peer& one, const peer& other) const noexcept;
  // Whether that node may be at the other end of the link. Not ok: denied, with a text for the other end.
  // `below`: the ids of its children; a node that registers over others has no say in these.
  [[nodiscard]] error check_registration(const session& on, bus_id id,
                                         std::optional<id_range> below) const;

  // Notes at the peer whether each message that is sent there, or comes from there, has to be checked.
  void mark(peer& of) const noexcept;

 private:
  // What a decision is about, and what it was.
  struct decision {
    bus_id from;
    bus_id to;
    std::uint64_t what = 0;  // never 0 once it is made
    bool allowed = false;
  };
  // Decided once for as long as the rules hold, mostly. `what` tells the kinds of decisions apart.
  template <class Decide>
  [[nodiscard]] bool decide(bus_id from, bus_id to, std::uint64_t what, Decide&& find) noexcept;

  [[nodiscard]] bool may_send(bus_id from, bus_id to, message_class what,
                              std::uint32_t type) noexcept;
  error read(std::string_view text);
  void look();
  void use(const result<std::optional<std::string>>& text);
  status refuse(bus_id to) noexcept;
  // Logged once a minute for each node and class.
  template <class Describe>
  void count_refused(bus_id from, message_class what, Describe&& describe) noexcept;

  node_context& node_;
  event_queue& events_;
  std::optional<watched_file> file_;  // none: no rules
  std::optional<access_rules> rules_;
  std::function<void()> changed_;
  bool is_changed_ = false;  // and `changed_` has not been called to its end
  timer clock_{node_.timers, nullptr};
  std::string problem_;  // that was logged last
  log_limit lines_{std::chrono::minutes{1}, 1};
  std::vector<decision> decisions_;  // since the rules changed; empty without rules
};

}  // namespace atbus::detail
