// The commands that each node answers itself, for operators: their names begin with "atbus.".
//
//   atbus.ping            the id and the incarnation of the node
//   atbus.report [FIRST]  its report (report_format.h), with the peers from number FIRST on: as many as go
//                         into one reply
//   atbus.route ID [TRACEPARENT]
//                         how a message to that node leaves this one: "here"; "link", "away" or "relay", then
//                         the id, the channel and the address of the next node; command_failed: there is no way
//   atbus.ask ID NAME...   asks that node one of the others above, and replies what it does
//   atbus.tap             bytes of the longest copy that a tap of this node gets
//   atbus.tap ADDRESS     begins to copy to that segment what this node receives (tap_lane.h); its id
//   atbus.untap ADDRESS   ends that: messages that the tap was to get, and how many of the last ones were lost
//
// Taps are only there if the options allow them. The others change nothing, but atbus.route with a TRACEPARENT
// writes a line to the log. The access rules hold for them as for other commands. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "atbus/command.hpp"
#include "atbus/node_report.hpp"
#include "node/core/message_taps.h"
#include "node/core/node_context.h"
#include "node/core/peer_table.h"
#include "node/route/route_table.h"

namespace atbus::detail {

class built_in_commands {
 public:
  // Replaces what is in the report.
  using reporter = std::function<void(node_report&)>;

  using logger = std::function<void(bus_id about, std::string line)>;

  using command_call = std::function<void(status, const command_reply&)>;
  // As command_exchange::ask.
  using asker = std::function<status(bus_id to, const std::vector<std::string>& words,
                                     std::chrono::nanoseconds timeout, command_call call)>;

  built_in_commands(node_context& node, peer_table& peers, const route_table& routes,
                    message_taps& taps, reporter report, logger log, asker ask)
      : node_(node),
        peers_(peers),
        routes_(routes),
        taps_(taps),
        report_(std::move(report)),
        log_(std::move(log)),
        ask_(std::move(ask)) {}

  // False: it is none of these.
  bool answer(command& asked);

 private:
  void answer_report(command& asked);
  void answer_route(command& asked);
  void ask_another(command& asked);
  void begin_tap(command& asked);
  void end_tap(command& asked);
  void describe(command& asked, const char* how, bus_id next);

  node_context& node_;
  peer_table& peers_;
  const route_table& routes_;
  message_taps& taps_;
  reporter report_;
  logger log_;
  asker ask_;
};

}  // namespace atbus::detail
