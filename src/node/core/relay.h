// Messages that pass through this node, and those of its own circuits on their way to the next one.
//
// One thread.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include "atbus/trace_context.hpp"
#include "core/log_limit.h"
#include "node/core/access_control.h"
#include "node/core/acknowledgements.h"
#include "node/core/broadcasts.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/link_sharing.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/core/sibling_links.h"
#include "node/route/circuit.h"
#include "node/route/route_table.h"
#include "protocol/routed_head.h"

namespace atbus::detail {

class relay final : public next_hops {
 public:
  relay(node_context& node, event_queue& events, access_control& access, const route_table& routes,
        const reachability& reach, link_output& output, link_sharing& sharing,
        acknowledgements& acks, session_set& sessions, circuits& own, sibling_links& siblings,
        broadcasts& sent)
      : node_(node),
        events_(events),
        access_(access),
        routes_(routes),
        reach_(reach),
        output_(output),
        sharing_(sharing),
        acknowledgements_(acks),
        sessions_(sessions),
        circuits_(own),
        siblings_(siblings),
        broadcasts_(sent) {}

  // A message of some circuit has come over that link.
  void take(session& from, bytes_view message);

  status pass_on(const routed_head& head, bytes_view batch) noexcept override {
    return send_on(head, batch, nullptr);
  }
  // This node has sent there what has that context: those between log that.
  void tell_trace(bus_id to, const trace_context& trace) noexcept;
  [[nodiscard]] link_trust trust_towards(bus_id destination) const noexcept override;
  [[nodiscard]] std::string way_to(bus_id destination) const override;
  void end_poll() noexcept override { node_.end_poll(); }

 private:
  static constexpr unsigned traces_a_minute = 60;

  // `from`: the peer it came from; null: this node.
  status send_on(const routed_head& head, bytes_view batch, const peer* from) noexcept;
  void say_failed(session& to, const routed_head& head, errc why);
  void log_trace(const session& from, const routed_head& head, bytes_view context) noexcept;

  node_context& node_;
  event_queue& events_;
  // A link bounds the lines in the names of others. What else is said of a node has lines of its own.
  log_limit own_traces_{std::chrono::minutes{1}, traces_a_minute};
  log_limit trace_lines_of_sources_{std::chrono::minutes{1}, traces_a_minute};
  log_limit trace_lines_of_links_{std::chrono::minutes{1}, 10 * traces_a_minute};
  access_control& access_;
  const route_table& routes_;
  const reachability& reach_;
  link_output& output_;
  link_sharing& sharing_;
  acknowledgements& acknowledgements_;
  session_set& sessions_;
  circuits& circuits_;
  sibling_links& siblings_;
  broadcasts& broadcasts_;

  // What was said of circuits last: a place for many of them.
  struct failure {
    std::uint64_t circuit = 0;
    std::uint64_t number = 0;
    errc why = errc::ok;
    std::chrono::nanoseconds told_at{0};
  };
  std::array<failure, 256> failures_{};
};

}  // namespace atbus::detail
