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
  bool chains = false;  // long arms of relays, each below the one before
};

[[nodiscard]] topology make_topology(test::dice& draw, const topology_options& options);

// A tree of four to eight nodes; else two to four, each with a TCP address and one in shared memory that ends in `name`,
// for those that link all of them.
[[nodiscard]] topology make_small_topology(test::dice& draw, bool is_tree, const std::string& name);

// How many links there are from one node to the other by way of parents and children. Siblings that have
// a link to each other save one of them, once.
[[nodiscard]] std::size_t links_between(const topology& all, std::size_t from, std::size_t to);
[[nodiscard]] std::size_t fewest_links_between(const topology& all, std::size_t from,
                                               std::size_t to);

}  // namespace atbus::detail
