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

  // Whether a connection that could be read, and was to end at `end`, goes on: the kernel has bytes that came in
  // time, for a program that looks late, or `has_more` bytes were read and wait for their turn. Until the program
  // has taken these, and what it reads at once after them.
  [[nodiscard]] bool is_due(const stream_link& of, bool has_more, std::chrono::nanoseconds end,
                            std::chrono::nanoseconds time) noexcept {
    if (of.now() != stream_link::state::open || (of.unread() == 0 && !has_more))
      return false;
    if (reads_ != 0 && of.bytes_read() == read_before_)
      return true;
    if (!has_more && (reads_ != 0 || time - end < late))
      return false;
    if (reads_ == reads_max)
      return false;
    ++reads_;
    read_before_ = of.bytes_read();
    return true;
  }

 private:
  static constexpr std::chrono::nanoseconds late = std::chrono::milliseconds{1};

  // The bytes of the second may have come later: there is no third, for the peer may send all the time.
  static constexpr int reads_max = 2;

  int reads_ = 0;
  std::uint64_t read_before_ = 0;
};

}  // namespace atbus::detail
