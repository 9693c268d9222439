// The position of a destination in a flow, which it tells the sender when a path opens.
#pragma once

#include <cstdint>

namespace atbus::detail {

struct flow_position {
  // The session of the flow, counted from 1 in each incarnation of the destination. If the destination
  // forgets a session, the flow gets a new one, and the number is not used again. Without this number, a
  // sender that missed an answer could mistake a new session for the forgotten one.
  std::uint64_t session = 0;
  // The highest number that the destination has handed to a handler or was told to skip.
  std::uint64_t last = 0;
  friend bool operator==(const flow_position&, const flow_position&) = default;
};

}  // namespace atbus::detail
