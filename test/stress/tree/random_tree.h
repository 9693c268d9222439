// The plan of a round: a tree of nodes that send to each other, most of them through others.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "node_crew.h"

namespace atbus::test {

// The parent of each node, by role; the root is the first, and nobody's child.
using tree_shape = std::vector<std::uint32_t>;

[[nodiscard]] tree_shape random_tree(std::uint32_t nodes, std::mt19937_64& random);
[[nodiscard]] crew_plan plan_of(const tree_shape& tree, std::mt19937_64& random,
                                const std::string& directory);

}  // namespace atbus::test
