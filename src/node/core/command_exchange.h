// Commands: those that this node has asked others, and the answers that it gives.
//
// Each call that asks is called back once. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "atbus/command.hpp"
#include "node/core/access_control.h"
#include "node/core/directory_watch.h"
#include "node/core/event_queue.h"
#include "node/core/outbox.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "protocol/command_body.h"
#include "protocol/message_head.h"

namespace atbus::detail {

class command_exchange {
 public:
  command_exchange(node_context& node, event_queue& events, access_control& access,
                   peer_table& peers, outbox& user, peer_retention& retention,
                   directory_watch& directory)
      : node_(node),
        events_(events),
        access_(access),
        peers_(peers),
        outbox_(user),
        retention_(retention),
        directory_(directory) {}

  // What the node answers itself. False: it is the user's.
  void set_built_in(std::function<bool(command&)> answer) { built_in_ = std::move(answer); }

  using command_call = std::function<void(status, const command_reply&)>;
  // See node::command.
  status ask(bus_id to, const std::vector<std::string>& words, std::chrono::nanoseconds timeout,
             command_call call);
  // The answer to a command of that incarnation's.
  status answer(const node_instance& to, std::uint64_t number, errc how,
                const std::vector<std::string>& values);

  // A command or a reply has come. False: it makes no sense, or may not come from there.
  bool deliver(const node_instance& source, const message_head& head, bytes_view payload,
               bool redelivered);
  // Whether it is a command whose time is over: its sender has been told so.
  [[nodiscard]] bool has_expired(const message_head& head, bytes_view payload) const;
  // A command or a reply of this node's does not get there.
  void undelivered(const held_message& what, errc reason);
  // When the time of the command in that message is over; none: its call was made already.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> deadline_of(
      const held_message& sent) const noexcept;
  // Whether the access rules let that command of this node's go there.
  [[nodiscard]] bool may_go(bus_id to, const held_message& what) noexcept {
    return bool{access_.check_command_sent(to, command_name(what.bytes))};
  }
  // on_writable, where it is owed, is told with the next events.
  void tell_room();
  // When that has to be done.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    return is_room_owed() ? std::chrono::nanoseconds{0} : timer_queue::never;
  }
  void close() noexcept;

 private:
  struct asked {
    bus_id to;
    command_call call;
    std::unique_ptr<timer> clock;
  };
  using asked_map = std::map<std::uint64_t, asked>;  // by number

  status send_question(bus_id to, std::uint64_t number, const std::vector<std::string>& words,
                       std::chrono::nanoseconds deadline, command_call call);
  void deliver_reply(bus_id source, errc how, std::uint64_t number,
                     std::vector<std::string> values);
  // The call is made with the next events, unless it was made before.
  void end(std::uint64_t number, status how);
  [[nodiscard]] bool is_room_owed() const noexcept;

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  peer_table& peers_;
  outbox& outbox_;
  peer_retention& retention_;
  directory_watch& directory_;
  std::function<bool(command&)> built_in_;
  asked_map asked_;
  std::uint64_t last_asked_ = 0;    // begins anywhere
  std::set<bus_id> asked_in_vain_;  // on_writable is owed for these
  // What commands answer through; null once the node is closed.
  std::shared_ptr<command_exchange*> answers_ = std::make_shared<command_exchange*>(this);
};

}  // namespace atbus::detail
