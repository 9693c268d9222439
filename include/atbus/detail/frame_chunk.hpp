// Room in a stream's queue for many frames: the sender writes frames there without calling the queue. The
// owner of the chunk adds the appended frames to the queue before it does anything else with the queue.
// Inlined into user code; programs include atbus/sender.hpp.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/detail/frame.hpp"

namespace atbus::detail {

struct frame_chunk {
  std::byte* begin = nullptr;  // from here to `at`: appended, not yet added to the queue
  std::byte* at = nullptr;     // the next frame goes here
  std::byte* end = nullptr;
  std::byte* frame = nullptr;  // `at` while a claim is open, else null
  bool checked = true;         // frames get checksums
  std::uint64_t frames = 0;    // appended here and in earlier chunks
  std::uint64_t bytes = 0;     // their payload

  [[nodiscard]] std::size_t appended() const noexcept {
    return static_cast<std::size_t>(at - begin);
  }
  [[nodiscard]] std::size_t room() const noexcept { return static_cast<std::size_t>(end - at); }

  // Begins a frame and returns where its payload goes. The caller has checked that there is room.
  [[nodiscard]] std::byte* claim(std::size_t length) noexcept {
    frame = at;
    return begin_frame(at, frame_kind::data, length);
  }
  // Appends a frame with the first `length` of the `claimed` bytes. False: the claim is gone, for example because
  // the chunk it was claimed in has ended.
  bool append(std::size_t claimed, std::size_t length) noexcept {
    if (frame == nullptr) [[unlikely]]
      return false;
    const std::size_t size = length == claimed ? frame_size(length) : shorten_frame(at, length);
    // Directly after the user has written the bytes: they are in the cache, and the branch predictor has
    // just seen their number. A later pass over many frames costs half as much again
    // (doc/design/stream.md).
    if (checked)
      seal_frame(at);
    at += size;
    frame = nullptr;
    ++frames;
    bytes += length;
    return true;
  }
  // Payload bytes of the open claim.
  [[nodiscard]] std::size_t claimed() const noexcept {
    return frame_length(load_little_endian<std::uint32_t>(frame));
  }

  void start(std::byte* from, std::size_t size) noexcept {
    begin = at = from;
    end = from + size;
  }
  void stop() noexcept { begin = at = end = frame = nullptr; }
};

}  // namespace atbus::detail
