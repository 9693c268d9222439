// Access of the functions of C to a simulation beyond its verbs.
#pragma once

#include <functional>
#include <memory>

#include "atbus/testing.hpp"

namespace atbus::detail {

class simulated_node;

struct simulation_access {
  using beginning = std::function<std::shared_ptr<void>(simulated_node&)>;

  // As start(), with a program that may move its node.
  static void start(testing::simulation& of, bus_id id, const testing::process_options& options,
                    beginning what);
  // What run_until_idle waits for.
  [[nodiscard]] static bool is_idle(testing::simulation& of);
  // Whether a handler may be running.
  [[nodiscard]] static bool is_in_use(const testing::simulation& of) noexcept;
};

}  // namespace atbus::detail
