// Room in a stream's queue for many frames at a time: whoever sends puts frames there without asking
// the queue. Its owner takes in what was appended before it does anything else with the queue, so that
// it knows of each frame. Inlined into user code; programs include atbus/sender.hpp.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/detail/frame.hpp"

namespace atbus::detail {

struct frame_chunk {
  std::byte* begin = nullptr;  // from here to `at`: appended, and not taken in
  std::byte* at = nullptr;     // the next frame goes here
  std::byte* end = nullptr;
  std::byte* frame = nullptr;  // claimed and not appended: `at`, or null
  bool checked = true;         // frames get checksums
  std::uint64_t frames = 0;    // appended here and in earlier chunks
  std::uint64_t bytes = 0;     // their payload

  [[nodiscard]] std::size_t appended() const noexcept {
    return static_cast<std::size_t>(at - begin);
  }
  [[nodiscard]] std::size_t room() const noexcept { return static_cast<std::size_t>(end - at); }

  // Begins a frame, for which there has to be room. Returns where its payload goes.
  [[nodiscard]] std::byte* claim(std::size_t length) noexcept {
    frame = at;
    return begin_frame(at, frame_kind::data, length);
  }
  // Of the `claimed` bytes, `length` are sent.
  void append(std::size_t claimed, std::size_t length) noexcept {
    if (frame == nullptr) [[unlikely]]
      return;  // the chunk it was claimed in has ended
    const std::size_t size = length == claimed ? frame_size(length) : shorten_frame(at, length);
    // Right behind the user's own pass over the bytes: they are at hand, and how many they are is what
    // the branch predictor has just seen. (A pass over many frames later costs half as much again,
    // doc/design/stream.md.)
    if (checked)
      seal_frame(at);
    at += size;
    frame = nullptr;
    ++frames;
    bytes += length;
  }
  // Payload bytes of the frame that is claimed.
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
