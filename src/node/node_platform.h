// The platform of a node: this machine, or a simulated one (src/testing).
#pragma once

#include <chrono>
#include <memory>

#include "atbus/node_options.hpp"
#include "node/core/node_core.h"

namespace atbus::detail {

class node_platform {
 public:
  node_platform(const node_platform&) = delete;
  node_platform& operator=(const node_platform&) = delete;
  virtual ~node_platform() = default;

  // The same for as long as this lives.
  [[nodiscard]] virtual node_environment environment() noexcept = 0;
  // Sleeps for at most `longest` (negative: no limit). True: the channels may have events.
  virtual bool sleep(std::chrono::nanoseconds longest) = 0;
  // Whether operators look for its nodes among those of this machine.
  [[nodiscard]] virtual bool has_reports() const noexcept { return false; }
  // How long to spin before that.
  [[nodiscard]] virtual std::chrono::nanoseconds spin() const noexcept = 0;

 protected:
  node_platform() = default;
};

// This machine.
[[nodiscard]] std::shared_ptr<node_platform> make_machine_platform(const node_options& options);

}  // namespace atbus::detail
