// A connection whose time is over is read once more: what came in time counts, however late the program looks.
#pragma once

#include <chrono>
#include <cstdint>

#include "channel/stream/stream_link.h"

namespace atbus::detail {

class last_look {
 public:
  // How long what is read then may take to end well.
  static constexpr std::chrono::nanoseconds more_time = std::chrono::milliseconds{100};

  // Whether a connection that could be read, and whose time is over, goes on: bytes that came in time are unread, or
  // `has_more` bytes were read and wait for their turn. Until the program has taken these, and what it reads at once
  // after them. Nothing tells a byte that has just come from one that came in time, so it counts as well. A read that
  // takes nothing counts too: whatever keeps bytes in the kernel, such as lack of memory, holds no connection.
  [[nodiscard]] bool is_due(const stream_link& of, bool has_more) noexcept {
    // Of a link that has ended, because writing has failed, there may be more, and nothing is unread.
    if (of.unread() == 0 && !of.holds_unread() && !has_more)
      return false;
    if (looks_ != 0 && of.reads() == reads_before_)
      return true;  // its turn has not come yet
    if (looks_ == looks_max || (looks_ != 0 && !has_more))
      return false;
    ++looks_;
    reads_before_ = of.reads();
    return true;
  }

 private:
  // The bytes of the second may have come later: there is no third, for the peer may send all the time.
  static constexpr int looks_max = 2;

  int looks_ = 0;
  std::uint64_t reads_before_ = 0;
};

}  // namespace atbus::detail
