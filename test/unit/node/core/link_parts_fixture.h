// Parts that work with links: around them what parts_fixture.h has, and circuits whose batches every link
// refuses.
#pragma once

#include "node/core/link_output.h"
#include "node/core/link_sharing.h"
#include "quiet_link_events.h"
#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {

class full_hops final : public next_hops, public quiet_link_events {
 public:
  status pass_on(const routed_head&, bytes_view) noexcept override { return errc::would_block; }
  link_trust trust_towards(bus_id) const noexcept override { return link_trust::unproven; }
  void end_poll() noexcept override {}
  std::string way_to(bus_id) const override { return "no way"; }

 private:
  bool received_other(link&, bytes_view, bool) override { return true; }
};

class link_parts : public parts_of_a_node {
 protected:
  full_hops hops;
  circuits relayed{1,           {.message_limit = 4096, .queue_size = 64 * 1024},
                   hops,        hops,
                   node.timers, clock,
                   random,      node.progress};
  session_list listed;
  link_sharing sharing{node, listed, relayed};
  link_output output{node, events, sharing, relayed};
};

}  // namespace atbus::detail
