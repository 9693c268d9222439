// Which node, and which of its lives: a process that is started again is another one.
#pragma once

#include <cstdint>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

struct node_life {
  bus_id id;
  std::uint64_t incarnation = 0;  // random, new at each start; 0: no node
  friend bool operator==(const node_life&, const node_life&) = default;
};

}  // namespace atbus::detail
