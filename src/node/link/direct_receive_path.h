// Where nearly all messages of a node come from: the link that the last one came from, as the next ones of
// that flow, for the user's handler and with nothing to tell him before.
//
// The node's core opens the receive path when such a message has come, adds what came to its counts, and closes it
// before anything that may change what it stands on. One thread.
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

  // False: the core is to look at this one.
  bool take(const link& at, bytes_view whole, bool redelivered) {
    // What is shorter than its head is too long then.
    if (&at != from || whole.size() - message_head_size > longest || redelivered || left == 0)
        [[unlikely]]
      return false;
    std::uint32_t type = 0;
    if (!is_plain_data(whole.data(), type)) [[unlikely]]
      return false;
    const bytes_view payload = payload_of(whole);
    // Before the handler, so that one that throws leaves its message counted as handled.
    --left;
    bytes += payload.size();
    (*handler)(message{source, destination, type, payload, false});
    return true;
  }
};

}  // namespace atbus::detail
