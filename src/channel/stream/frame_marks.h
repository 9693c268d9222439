// Positions of some frame boundaries in a queue. To release many frames, the owner goes from mark to mark
// instead of from frame to frame, which would load a cache line for each frame.
//
// Pure book-keeping; the queue's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace atbus::detail {

class frame_marks {
 public:
  // In the queue's count of committed bytes; `frames` in its user's count.
  struct mark {
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
  };
  static constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

  frame_marks() = default;
  // For a queue with this limit in bytes.
  explicit frame_marks(std::size_t byte_limit) noexcept
      : spacing_(byte_limit / (most / 2 - 1) + 1) {}

  // Adds a frame boundary. While there are many marks, one close to the last is dropped.
  void add(mark at) noexcept {
    if (count_ == most || (count_ >= most / 2 && at.bytes - newest_ < spacing_))
      return;
    marks_[(first_ + count_++) % most] = at;
    newest_ = at.bytes;
  }
  // Removes all marks up to these counts and returns the last of them; its `bytes` are 0 if there is none.
  mark take(std::uint64_t bytes, std::uint64_t frames) noexcept {
    mark last;
    for (; count_ != 0; --count_, first_ = (first_ + 1) % most) {
      if (marks_[first_].bytes > bytes || marks_[first_].frames > frames)
        break;
      last = marks_[first_];
    }
    return last;
  }
  void clear() noexcept { count_ = 0; }

 private:
  static constexpr std::size_t most = 128;

  std::array<mark, most> marks_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t spacing_ = 1;
};

}  // namespace atbus::detail
