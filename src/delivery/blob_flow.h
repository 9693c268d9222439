// The counting of one blob: how far its sender may go, and what its receiver grants. Two pure state machines.
//
// Guarantees:
//  - The sender never sends beyond what was granted, and the receiver never grants beyond its window behind
//    what was taken. So a window is what is under way at most, whatever the size of the blob.
//  - Limits are positions: a grant that comes late, or twice, changes nothing.
//  - The receiver takes each byte once and in order, or none more.
//
// doc/design/blobs.md. One thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace atbus::detail {

class blob_sending {
 public:
  explicit blob_sending(std::uint64_t size) noexcept : size_(size) {}

  // The receiver has taken so many bytes, and grants up to that position. False: it makes no sense, and nothing
  // has changed.
  [[nodiscard]] bool granted(std::uint64_t taken, std::uint64_t limit) noexcept {
    if (taken > sent_ || limit > size_)
      return false;
    taken_ = std::max(taken_, taken);
    limit_ = std::max(limit_, limit);
    return true;
  }
  // Of what sendable() allows.
  void send(std::uint64_t bytes) noexcept { sent_ += bytes; }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // The position of the next byte.
  [[nodiscard]] std::uint64_t position() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t sendable() const noexcept { return limit_ - sent_; }
  [[nodiscard]] std::uint64_t under_way() const noexcept { return sent_ - taken_; }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool is_all_sent() const noexcept { return sent_ == size_; }

 private:
  std::uint64_t size_;
  std::uint64_t sent_ = 0;   // never above limit_
  std::uint64_t taken_ = 0;  // never above sent_
  std::uint64_t limit_ = 0;  // never above size_
};

class blob_receiving {
 public:
  struct grant {
    std::uint64_t taken;
    std::uint64_t limit;
  };

  blob_receiving(std::uint64_t size, std::uint64_t window) noexcept
      : size_(size), window_(window) {}

  // Bytes have come. False: they are not the next ones, or more than was granted, and nothing has changed.
  [[nodiscard]] bool arrived(std::uint64_t position, std::uint64_t bytes) noexcept {
    if (position != arrived_ || bytes == 0 || bytes > limit_ - arrived_)
      return false;
    arrived_ += bytes;
    return true;
  }
  // The handler has taken all that has come.
  void take() noexcept { taken_ = arrived_; }
  // Nothing more is granted until it goes on.
  void pause() noexcept { is_paused_ = true; }
  void resume() noexcept { is_paused_ = false; }

  // What to tell the sender, as told from now on.
  [[nodiscard]] grant next_grant() noexcept {
    limit_ = allowed();
    told_ = taken_;
    return {told_, limit_};
  }
  // Whether there is something to tell; whether there is so much that it should not wait.
  [[nodiscard]] bool has_news() const noexcept { return told_ != taken_ || allowed() != limit_; }
  [[nodiscard]] bool is_urgent() const noexcept {
    return taken_ - told_ >= window_ / 4 && !is_complete();
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool has_arrived() const noexcept { return arrived_ == size_; }
  // Whether all is taken and nothing holds the end back.
  [[nodiscard]] bool is_complete() const noexcept { return taken_ == size_ && !is_paused_; }

 private:
  [[nodiscard]] std::uint64_t allowed() const noexcept {
    return is_paused_ ? limit_ : std::max(limit_, taken_ + std::min(window_, size_ - taken_));
  }

  std::uint64_t size_;
  std::uint64_t window_;
  std::uint64_t arrived_ = 0;  // never above limit_
  std::uint64_t taken_ = 0;    // never above arrived_
  std::uint64_t limit_ = 0;    // that was told; never above size_
  std::uint64_t told_ = 0;     // of taken_
  bool is_paused_ = false;
};

}  // namespace atbus::detail
