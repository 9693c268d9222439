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

  // Whether a connection that could be read, and was to end at `end`, is to be read before it does. Once, until the
  // program has done so, and only where that has looked late.
  [[nodiscard]] bool is_due(const stream_link& of, std::chrono::nanoseconds end,
                            std::chrono::nanoseconds time) noexcept {
    if (of.now() != stream_link::state::open || (!given_ && time - end < late) || of.unread() == 0)
      return false;
    if (given_)
      return of.bytes_read() == read_before_;
    given_ = true;
    read_before_ = of.bytes_read();
    return true;
  }

 private:
  static constexpr std::chrono::nanoseconds late = std::chrono::milliseconds{1};

  bool given_ = false;
  std::uint64_t read_before_ = 0;
};

}  // namespace atbus::detail
