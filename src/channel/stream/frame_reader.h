// Finds the frames in the bytes of one direction of a stream, where they lie.
//
// Guarantees:
//  - Each complete frame is handed out once, in order, in place: no copy, no allocation.
//  - A frame's length is checked against the limit as soon as its header has arrived, before memory is
//    reserved for the rest. The payload of a checked frame is handed out only if its checksum is right. With
//    agreed checksums, only checked frames are handed out.
//  - The result does not depend on how the bytes are split into calls.
//  - The first frame is the other end's hello. The agreement of both hellos (checksums, version) holds for
//    every later frame of this direction.
//  - After a fault no frame is handed out.
//
// One thread. A handler may throw: the frame it was given counts as handed out. It must not destroy
// the reader, and must leave the memory alone until walk() has returned.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "channel/common/frame.h"
#include "channel/stream/opening.h"
#include "core/crc32c.h"

namespace atbus::detail {

// A handler's answer after each frame.
enum class frame_flow : std::uint8_t { go_on, stop };

enum class walk_end : std::uint8_t {
  needs_more,  // the rest is not a complete frame: needed() tells its size
  stopped,     // the handler asked for it
  failed,      // fault() says why
};

// When the checksum of a data frame is verified: before it is handed out, or later by its user
// (checksum_holds, then reject if it is wrong).
enum class checksums : std::uint8_t { now, later };

class frame_reader {
 public:
  // `own` is what this end has sent or will send; own.payload_max limits the frames it accepts.
  explicit frame_reader(const hello& own) noexcept : own_{own}, limit_{own.payload_max} {
    assert(own.payload_max <= frame_payload_max);
  }

  // Hands out the complete frames from `at` on, and moves `at` past each before the call.
  // `handler(frame_kind, bytes_view payload)` returns a frame_flow. It gets only valid and known control
  // frames; opened() and goodbye() are already up to date.
  //
  // `at` keeps its place modulo 8 from frame to frame: aligned frames stay aligned.
  template <checksums When = checksums::now, class Handler>
  walk_end walk(const std::byte*& at, const std::byte* end, Handler&& handler);

  // The handed-out message has a wrong checksum: ends the stream as walk() would.
  void reject(bytes_view message) noexcept { fail_checksum(message.data() - frame_header_size); }

  // The data frames from `at` on; walk() has checked the first.
  [[nodiscard]] frame_run run(const std::byte* at, const std::byte* end) const noexcept {
    return {.at = at, .end = end, .limit = limit_, .checked = in_checked_run_};
  }

  // After needs_more: the bytes from `at` that the next frame needs at least. More than there were, and at
  // most frame_size() of the limit.
  [[nodiscard]] std::size_t needed() const noexcept { return needed_; }

  // The limit of data frames in payload bytes, from the next walk() on. Never above this end's hello.
  [[nodiscard]] std::uint32_t payload_max() const noexcept { return limit_; }
  void set_limit(std::uint32_t payload_max) noexcept {
    limit_ = std::min(payload_max, own_.payload_max);
  }

  // The other end's hello has arrived and is compatible: agreed() is valid.
  [[nodiscard]] bool opened() const noexcept { return state_ != state::opening; }
  [[nodiscard]] const agreement& agreed() const noexcept { return agreed_; }

  // The other end has said goodbye. An end of file without a goodbye is a loss.
  [[nodiscard]] bool goodbye() const noexcept { return state_ == state::ended; }
  [[nodiscard]] errc goodbye_reason() const noexcept { return goodbye_reason_; }

  [[nodiscard]] frame_fault fault() const noexcept { return fault_; }
  // The found and the expected values, as text. No error unless there is a fault.
  [[nodiscard]] error problem() const noexcept;

 private:
  [[nodiscard]] std::string problem_text() const;
  enum class state : std::uint8_t { opening, open, ended };
  enum class step : std::uint8_t { deliver, skip, needs_more, failed };

  // Leaves the caller's pointer behind the last frame handed out, also when a handler throws; until
  // then the place is a local variable and may live in a register.
  struct cursor {
    explicit cursor(const std::byte*& place) noexcept : result{place}, at{place} {}
    ~cursor() { result = at; }
    cursor(const cursor&) = delete;
    cursor& operator=(const cursor&) = delete;
    const std::byte*& result;
    const std::byte* at;
  };

  // Why a run of data frames, all checked or all unchecked, ended. `other`: at a frame that is none
  // of these.
  enum class run_end : std::uint8_t { needs_more, stopped, failed, other };
  template <bool Checked, checksums When, class Handler>
  run_end walk_data(const std::byte*& place, const std::byte* end, Handler& handler);

  // Handles everything but an expected data frame. `left` bytes are available.
  step other_frame(const std::byte* at, std::size_t left) noexcept;
  // Without an agreement on checksums: turns from checked to unchecked frames or back when the next
  // frame, which begins with `word`, is of the other sort.
  bool starts_other_run(std::uint32_t word) noexcept {
    if (agreed_.checksums || is_checked(word) == in_checked_run_)
      return false;
    in_checked_run_ = !in_checked_run_;
    return true;
  }
  frame_fault check_header(std::uint32_t word, std::uint32_t checksum) const noexcept;
  step control_frame(bytes_view payload) noexcept;
  frame_fault take_hello(bytes_view payload) noexcept;
  frame_fault take_control(bytes_view payload, bool& known) noexcept;
  [[gnu::cold]] void fail(frame_fault fault, std::uint64_t found = 0,
                          std::uint64_t expected = 0) noexcept;
  [[gnu::cold]] void fail_checksum(const std::byte* at) noexcept;

  hello own_;
  std::uint32_t limit_;
  hello theirs_;
  agreement agreed_;
  std::size_t needed_ = frame_header_size;
  std::uint64_t found_ = 0;  // for problem()
  std::uint64_t expected_ = 0;
  errc goodbye_reason_ = errc::ok;
  state state_ = state::opening;
  bool in_checked_run_ = true;
  frame_fault fault_ = frame_fault::none;
};

template <bool Checked, checksums When, class Handler>
frame_reader::run_end frame_reader::walk_data(const std::byte*& place, const std::byte* end,
                                              Handler& handler) {
  const std::uint64_t limit = limit_;
  cursor here{place};
  for (;;) {
    const auto left = static_cast<std::size_t>(end - here.at);
    if (left < frame_header_size) {
      needed_ = frame_header_size;
      return run_end::needs_more;
    }
    const std::byte* const at = here.at;
    const std::uint64_t header = load_frame_header(at);
    const std::uint64_t length = data_frame_length(header, Checked);
    if (length > limit) [[unlikely]]
      return run_end::other;
    const std::size_t size = frame_size(length);
    if (size > left) {
      needed_ = size;
      return run_end::needs_more;
    }
    if constexpr (Checked && When == checksums::now) {
      if (crc32c_frame(at, length) != header >> 32) [[unlikely]] {
        fail_checksum(at);
        return run_end::failed;
      }
    }
    here.at = at + size;
    if (handler(frame_kind::data, bytes_view{at + frame_header_size, length}) == frame_flow::stop)
      return run_end::stopped;
  }
}

template <checksums When, class Handler>
walk_end frame_reader::walk(const std::byte*& at, const std::byte* end, Handler&& handler) {
  if (fault_ != frame_fault::none)
    return walk_end::failed;
  for (;;) {
    if (state_ == state::open) {
      const run_end ended = in_checked_run_ ? walk_data<true, When>(at, end, handler)
                                            : walk_data<false, When>(at, end, handler);
      if (ended != run_end::other)
        return static_cast<walk_end>(ended);
      if (starts_other_run(load_little_endian<std::uint32_t>(at)))
        continue;
    }
    const std::byte* const frame = at;
    const step next = other_frame(frame, static_cast<std::size_t>(end - frame));
    if (next == step::needs_more)
      return walk_end::needs_more;
    if (next == step::failed)
      return walk_end::failed;
    const std::size_t length = frame_length(load_little_endian<std::uint32_t>(frame));
    at = frame + frame_size(length);
    if (next == step::deliver &&
        handler(frame_kind::control, bytes_view{frame + frame_header_size, length}) ==
            frame_flow::stop)
      return walk_end::stopped;
  }
}

}  // namespace atbus::detail
