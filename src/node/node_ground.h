// What a node of a user stands on: this machine, or a simulated one (src/testing).
#pragma once

#include <chrono>
#include <memory>

#include "atbus/node_options.hpp"
#include "node/core/node_core.h"

namespace atbus::detail {

class node_ground {
 public:
  node_ground(const node_ground&) = delete;
  node_ground& operator=(const node_ground&) = delete;
  virtual ~node_ground() = default;

  // The same for as long as this lives.
  [[nodiscard]] virtual node_environment environment() noexcept = 0;
  // Sleeps for at most so long, negative: for ever, until the channels may have something to tell: true.
  virtual bool sleep(std::chrono::nanoseconds longest) = 0;
  // How long to spin before that.
  [[nodiscard]] virtual std::chrono::nanoseconds spin() const noexcept = 0;

 protected:
  node_ground() = default;
};

// This machine.
[[nodiscard]] std::shared_ptr<node_ground> make_machine_ground(const node_options& options);

}  // namespace atbus::detail
