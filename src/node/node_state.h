// A node in a process: the core, and the clock, randomness and channels it stands on here.
#pragma once

#include <chrono>
#include <memory>

#include "atbus/node/node_options.hpp"
#include "channel/spin_budget.h"
#include "node/link.h"
#include "node/node_core.h"
#include "node/random_source.h"

namespace atbus::detail {

class system_random final : public random_source {
 public:
  void fill(std::span<std::byte> bytes) noexcept override;
};

class node_on_loop;

class node_state {
 public:
  node_state(bus_id id, const node_options& options);
  ~node_state();

  // The public object lets go: ends the node, at once or when the handler that runs has returned.
  void release() noexcept;

  std::size_t poll(const poll_limits& limits);
  status wait(std::chrono::nanoseconds timeout);
  status run();
  status shutdown(std::chrono::nanoseconds deadline);
  void stop() noexcept { stopping_ = true; }
  [[nodiscard]] node_core& core() noexcept { return core_; }
  // What a handler threw on the loop.
  void rethrow();

 private:
  friend class node_on_loop;
  // Keeps the state until the outermost verb returns.
  class use;

  system_random random_;
  std::unique_ptr<transport> channels_;
  node_core core_;
  node_on_loop* on_loop_ = nullptr;
  std::chrono::nanoseconds drain_;
  spin_budget spin_{std::chrono::microseconds{50}};
  unsigned in_use_ = 0;
  bool owned_ = true;
  bool stopping_ = false;
};

// Equal on processes that can share memory and Unix sockets, as far as can be told.
[[nodiscard]] host_identity this_host() noexcept;

}  // namespace atbus::detail
