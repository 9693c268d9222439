// A tree of nodes as a seed draws it: who is whose child, ids and ranges, and where each listens.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/id_range.hpp"
#include "dice.h"

namespace atbus::detail {

struct tree_node {
  std::size_t parent = 0;  // of the root: itself
  unsigned depth = 0;
  bus_id id;
  std::optional<id_range> range;  // of its children
  unsigned host = 0;
  std::vector<std::string> addresses;  // where it listens
  std::string dials;                   // its parent
  std::vector<std::size_t> children;
};

// The first one is the root; parents come before their children.
using topology = std::vector<tree_node>;

struct topology_options {
  std::size_t nodes = 2;
  unsigned depth_max = 4;
  bool shares_hosts = false;
};

[[nodiscard]] topology make_topology(test::dice& draw, const topology_options& options);

}  // namespace atbus::detail
