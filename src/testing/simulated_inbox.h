// Named inboxes (shm://) of simulated_network.h. They outlive the processes that hold them: the next process
// inherits the messages in a lane, and a living sender calls it behind these messages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "node/link/link.h"
#include "testing/simulated_link.h"

namespace atbus::detail {

struct simulated_inbox {
  // What an earlier holder read: ends[reader] of the wire.
  struct lane {
    std::shared_ptr<simulated_wire> wire;
    std::size_t reader = 0;
  };

  simulated_transport* holder = nullptr;  // null: its process is gone
  std::vector<lane> lanes;

  // The process of that end is gone: what is on the way to it stays.
  void keep(std::shared_ptr<simulated_wire> wire, std::size_t reader);
  void open(simulated_transport& by);
  void close();
  // Tells the holder what earlier ones have left, at most so many messages; returns how many.
  std::size_t tell(link_events& events, std::size_t most);
  [[nodiscard]] bool is_due() const noexcept;

 private:
  std::size_t inherit(const lane& from, link_events& events, std::size_t most);
  // What waits there is its writer's again.
  static void drop(const lane& from);
  // A link over fresh lanes to who has called.
  void answer(const lane& from);
};

}  // namespace atbus::detail
