// The messages of one stream that lie one behind the other where they were read, lent to whoever tells
// them.
//
// A handler that is told one may bring about that no other is to follow: the lender ends the run then, and
// lends what is left another time.
#pragma once

#include "atbus/bytes.hpp"
#include "atbus/detail/frame.hpp"

namespace atbus::detail {

class message_run {
 public:
  // Calls `tell` with one after the other, at most so many; each counts as told before it is. Returns how
  // many.
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
  // At which it ended for its wrong checksum; without data: none.
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
