// Consecutive messages of one stream in its read buffer, lent to the code that calls handlers.
//
// A handler may stop the delivery. Then the lender ends the run, and lends the rest another time.
#pragma once

#include "atbus/bytes.hpp"
#include "atbus/detail/frame.hpp"

namespace atbus::detail {

class message_run {
 public:
  // Calls `tell` with each message, at most `most`. A message counts before its call. Returns how many.
  template <class Tell>
  std::size_t tell(std::size_t most, Tell&& tell) {
    return frames_.checked ? tell_frames<true>(most, tell) : tell_frames<false>(most, tell);
  }

  // For the lender.
  [[nodiscard]] frame_run& begin() noexcept {
    *this = {};
    return frames_;
  }
  void end() noexcept { frames_.end = frames_.at; }
  [[nodiscard]] const frame_run& rest() const noexcept { return frames_; }
  // The message with a wrong checksum that ended the run; empty if there is none.
  [[nodiscard]] bytes_view wrong() const noexcept { return wrong_; }

 private:
  template <bool Checked, class Tell>
  std::size_t tell_frames(std::size_t most, Tell& tell) {
    std::size_t told = 0;
    std::uint64_t length = 0;
    while (told != most && frames_.has_next<Checked>(length)) {
      const std::byte* const frame = frames_.at;
      const bytes_view message{frame + frame_header_size, static_cast<std::size_t>(length)};
      if constexpr (Checked) {
        if (!checksum_holds(frame)) [[unlikely]] {
          wrong_ = message;
          break;
        }
      }
      frames_.at = frame + frame_size(length);
      ++told;
      tell(message);
    }
    return told;
  }

  frame_run frames_;
  bytes_view wrong_;
};

}  // namespace atbus::detail
