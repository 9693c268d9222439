// How far a destination has come with a flow: what it tells the sender when a path opens.
#pragma once

#include <cstdint>

namespace atbus::detail {

struct flow_position {
  // Which memory of the flow it speaks of: counted from 1 in each incarnation of the destination. One that
  // it forgot never comes back; the flow gets a new one. Without this number a sender that missed
  // the answer after a forgotten one would take the new memory for the old.
  std::uint64_t session = 0;
  // The highest number that it has handed to a handler or was told to pass over.
  std::uint64_t last = 0;
  friend bool operator==(const flow_position&, const flow_position&) = default;
};

}  // namespace atbus::detail
