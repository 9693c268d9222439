// Identifies a node and its incarnation: a process that is started again is another incarnation.
#pragma once

#include <cstdint>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

struct node_instance {
  bus_id id;
  std::uint64_t incarnation = 0;  // random, new at each start; 0: no node
  friend bool operator==(const node_instance&, const node_instance&) = default;
};

}  // namespace atbus::detail
