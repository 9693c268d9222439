// The receive path of nearly all messages of a node: from the link of the last message straight to the user's
// handler, if they are the next ones of that flow and no event has to be reported before.
//
// The core opens the receive path after such a message, adds the messages to its counts, and closes the path
// before anything that may change its conditions. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/message.hpp"
#include "protocol/message_head.h"

namespace atbus::detail {

class link;

struct direct_receive_path {
  link* from = nullptr;  // null: it is closed
  const std::function<void(const message&)>* handler = nullptr;
  bus_id source;
  bus_id destination;
  std::size_t longest = 0;  // bytes of a message
  std::size_t left = 0;     // messages that it may still tell
  // Told since it was opened.
  [[nodiscard]] std::uint64_t messages() const noexcept { return most - left; }
  std::size_t most = 0;
  std::uint64_t bytes = 0;

  // False: the core has to handle this message.
  bool take(const link& at, bytes_view whole, bool redelivered) {
    // A message shorter than its head wraps around, so it counts as too long.
    if (&at != from || whole.size() - message_head_size > longest || redelivered || left == 0)
        [[unlikely]]
      return false;
    std::uint32_t type = 0;
    if (!is_plain_data(whole.data(), type)) [[unlikely]]
      return false;
    const bytes_view payload = payload_of(whole);
    // Counted before the call: a message whose handler throws counts as handled.
    --left;
    bytes += payload.size();
    (*handler)(message{source, destination, type, payload, false});
    return true;
  }
};

}  // namespace atbus::detail
