// Copies of what a node receives, for processes that watch it.
//
//  - A copy is made before the handler is called, so that it also shows the message that ends a process.
//  - A tap never waits: a copy that finds no room is counted, and the reader is told how many are lost as soon
//    as there is room again.
//  - While there is none, a message costs one look at node_context::tapped, and not even that on the direct
//    receive path: that one is not opened while there is a tap.
//
// A tap ends when it is ended, when its reader has died (within a second), and with the node. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "node/core/event_queue.h"
#include "node/core/node_context.h"
#include "node/link/tap_lane.h"
#include "protocol/recording_entry.h"

namespace atbus::detail {

// At a time, for each node.
inline constexpr std::size_t taps_max = 4;

class message_taps {
 public:
  message_taps(node_context& node, event_queue& events) noexcept : node_(node), events_(events) {}

  // Bytes that a copy may have.
  [[nodiscard]] std::size_t longest() const noexcept {
    return tap_head_size + std::max(node_.options.message_limit(), control_size_max);
  }
  // Begins to copy to the segment at that address. Errors: those of tap_opener, would_block (there are
  // taps_max already), invalid_argument (there is one), not_supported.
  error begin(std::string_view address, bus_id by);
  struct counts {
    std::uint64_t messages = 0;  // that it was to get
    std::uint64_t lost = 0;  // of the last ones, for lack of room, which its reader was not told of
  };
  // Ends it. Errors: not_found.
  result<counts> end(std::string_view address);

  // To all taps. `head` has no numbers yet.
  void copy(recording_entry head, bytes_view payload) noexcept;
  void close() noexcept;

 private:
  struct tap {
    std::string address;
    std::unique_ptr<tap_lane> lane;
    std::chrono::nanoseconds since_1970;  // when this node's clock was 0
    std::uint64_t messages = 0;
    std::uint64_t lost = 0;      // since the last copy that was sent
    std::uint64_t lost_all = 0;  // these too
  };

  // False: there is no room, and the loss is counted still.
  bool tell_lost(tap& to, std::chrono::nanoseconds now) noexcept;
  void tell_end(tap& to) noexcept;
  // Ends those whose reader has died.
  void look_at_readers();
  void ended();

  node_context& node_;
  event_queue& events_;
  std::vector<tap> taps_;
  timer look_{node_.timers, [this] { look_at_readers(); }};
};

}  // namespace atbus::detail
