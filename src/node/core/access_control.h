// What the file of access rules allows: read when the node is made, and again whenever it has changed. Without
// such a file everything is allowed.
//
// What the rules refuse is counted, and logged once a minute for each cause. One thread.
#pragma once

#include <array>
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
#include "protocol/handshake.h"

namespace atbus::detail {

class access_control {
 public:
  access_control(node_context& node, event_queue& events) : node_(node), events_(events) {}

  // Reads the file of the options, if they name one. `changed` is called when other rules hold from now on.
  // Errors: those of the file; then the node can't be used.
  error open(std::function<void()> changed);

  // What this node's user sends. Not ok: denied, and it is counted.
  [[nodiscard]] status check_sent(bus_id to, message_class what, std::uint32_t type) noexcept {
    return !rules_ || rules_->may_send(node_.self.id, to, what, type) ? status{} : refuse(to);
  }
  [[nodiscard]] status check_command_sent(bus_id to, std::string_view name) noexcept {
    return !rules_ || rules_->may_command(node_.self.id, to, name) ? status{} : refuse(to);
  }
  // What has come. False: it is refused, counted and logged.
  [[nodiscard]] bool admits(bus_id from, message_class what, std::uint32_t type) noexcept;
  [[nodiscard]] bool admits_command(bus_id from, std::string_view name) noexcept;
  // Of this node's user, or on its way through this node.
  [[nodiscard]] bool lets_broadcast(bus_id from, const id_range& to, std::uint32_t type) noexcept;
  // Whether messages of circuits between these two may pass through this node.
  [[nodiscard]] bool lets_pass(bus_id from, bus_id to) noexcept;
  // Whether that node may be at the other end of the link. Not ok: denied, with a text for the other end.
  [[nodiscard]] error check_registration(const link& at, bus_id id,
                                         const std::optional<id_range>& below) const;

  // Notes at the peer whether each message that is sent there, or comes from there, has to be checked.
  void mark(peer& of) const noexcept;

 private:
  struct meeting {
    bus_id one;
    bus_id other;
    bool allowed = false;
  };

  error read(std::string_view text);
  void look();
  void use(const result<std::optional<std::string>>& text);
  status refuse(bus_id to) noexcept;
  // `cause` is the same for what is refused for the same reason.
  template <class Describe>
  void count_refused(std::uint64_t cause, Describe&& describe) noexcept;

  node_context& node_;
  event_queue& events_;
  std::optional<watched_file> file_;  // none: no rules
  std::optional<access_rules> rules_;
  std::function<void()> changed_;
  bool is_changed_ = false;  // and `changed_` has not been called to its end
  timer clock_{node_.timers, nullptr};
  std::string problem_;  // that was logged last
  log_limit lines_{std::chrono::minutes{1}, 1};
  std::array<meeting, 256> meetings_{};  // decided since the rules changed
};

}  // namespace atbus::detail
