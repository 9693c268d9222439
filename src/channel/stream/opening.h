// Control frames, and the agreement of two ends that open a channel over a stream.
//
// Pure: bytes in, values out. frame_reader applies it; doc/design/frame.md has the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "channel/common/frame.h"

namespace atbus::detail {

// The first two bytes of a control frame's payload. A receiver ignores types it does not know if
// the high bit is set; any other it does not know ends the stream.
enum class control_type : std::uint16_t {
  hello = 1,            // the opening, both directions, first and once
  switch_to_lanes = 2,  // from here on this direction's data goes through the lanes
  goodbye = 3,          // nothing follows
  lanes = 4,            // the lane that the other end may use, with its descriptors
};
inline constexpr std::uint16_t control_ignorable = 0x8000;

inline constexpr std::uint16_t stream_version = 1;
inline constexpr char stream_magic[8] = {'a', 't', 'b', 'u', 's', 'S', 'T', 'R'};

// One end's announcement. Its frame is always checked.
struct hello {
  std::uint16_t version_min = stream_version;
  std::uint16_t version_max = stream_version;
  bool wants_checksums = true;
  bool offers_lanes = false;              // one lane, from the sender to the receiver
  bool offers_lane_pair = false;          // one in each direction
  std::uint32_t payload_max = 64 * 1024;  // bytes of the longest message it accepts
  std::uint64_t session = 0;              // random, new for each connection

  friend bool operator==(const hello&, const hello&) = default;
};

// The result of both hellos.
struct agreement {
  std::uint16_t version = 0;
  bool checksums = true;
  bool lanes = false;
  bool lane_pair = false;
  std::uint32_t send_payload_max = 0;  // bytes of the longest message the other end accepts
  std::uint64_t peer_session = 0;

  friend bool operator==(const agreement&, const agreement&) = default;
};

// Payload bytes.
inline constexpr std::size_t control_head_size = 4;
inline constexpr std::size_t hello_size = 32;  // later versions may append bytes, which are ignored
inline constexpr std::size_t switch_size = 4;
inline constexpr std::size_t goodbye_size = 8;
inline constexpr std::size_t lanes_size = 8;
inline constexpr std::uint32_t no_lane = 0xffffffff;  // the other end may use no lane

// Complete frames. A hello is always checked; the last two are if `checked`.
[[nodiscard]] std::array<std::byte, frame_size(hello_size)> hello_frame(const hello& own) noexcept;
[[nodiscard]] std::array<std::byte, frame_size(switch_size)> switch_frame(bool checked) noexcept;
[[nodiscard]] std::array<std::byte, frame_size(goodbye_size)> goodbye_frame(errc reason,
                                                                            bool checked) noexcept;

// Reads the payload of a control frame in its version 1 form. `type` need not be a known one.
[[nodiscard]] std::array<std::byte, frame_size(lanes_size)> lanes_frame(std::uint32_t lane,
                                                                        bool checked) noexcept;

[[nodiscard]] frame_fault read_control_type(bytes_view payload, control_type& type) noexcept;
[[nodiscard]] frame_fault read_hello(bytes_view payload, hello& theirs) noexcept;
[[nodiscard]] frame_fault read_switch(bytes_view payload) noexcept;
// `reason` may be a value that this build has no name for.
[[nodiscard]] frame_fault read_goodbye(bytes_view payload, errc& reason) noexcept;
[[nodiscard]] frame_fault read_lanes(bytes_view payload, std::uint32_t& lane) noexcept;

// The highest common version; checksums if either side wants them; lanes if both offer them.
[[nodiscard]] frame_fault agree(const hello& own, const hello& theirs, agreement& agreed) noexcept;

}  // namespace atbus::detail
