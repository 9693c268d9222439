// Calls that wait until a peer is connected: node::on_ready. Each is made once: with ok, with timed_out,
// or with closed when the node ends first.
//
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "node/core/event_queue.h"

namespace atbus::detail {

class ready_waits {
 public:
  // Calls that wait, those that are due and not told yet among them.
  static constexpr std::size_t most = 4096;

  ready_waits(node_context& node, event_queue& events) noexcept : node_(node), events_(events) {}

  // A negative timeout never ends. `is_ready`: the peer is connected already. would_block: there are `most`
  // already.
  error add(bus_id id, std::chrono::nanoseconds timeout, std::function<void(status)> call,
            bool is_ready = false);
  // That peer is connected.
  void tell(bus_id id, status how);
  void close() noexcept;

 private:
  struct wait {
    bus_id id;
    std::function<void(status)> call;
    std::unique_ptr<timer> clock;
  };
  void time_out(const wait* which);

  node_context& node_;
  event_queue& events_;
  std::vector<std::unique_ptr<wait>> waits_;
};

}  // namespace atbus::detail
