// The plan of a round: two nodes that send to each other.
#pragma once

#include <random>
#include <string>

#include "node_crew.h"

namespace atbus::test {

[[nodiscard]] crew_plan two_nodes(way through, std::mt19937_64& random,
                                  const std::string& directory);

}  // namespace atbus::test
