// Parties whose nodes the simulated network connects, one address each.
#pragma once

#include "unit/node/simulated_party.h"

namespace atbus::detail {

class NodeCore : public ::testing::Test {
 protected:
  void connect(party& from, party& to, std::uint64_t id_of_to) {
    from.connect(id_of_to);
    ASSERT_TRUE(net.run_until([&] { return from.is_connected(id_of_to); }, 5s));
    net.run_for(5ms);
    ASSERT_EQ(to.count(endpoint_event::connected), 1);
  }

  simulated_network net{1};
};

}  // namespace atbus::detail
