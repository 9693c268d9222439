// Checksums of frames, and the names of protocol faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/detail/frame.hpp"

namespace atbus::detail {

// Seals all complete frames in a run of queue memory; the run begins with a frame. Returns the size of the
// complete frames in bytes.
std::size_t seal(mutable_bytes run) noexcept;

// Violations of the stream protocol by the peer. Each has a counter and an error text, and ends the stream.
enum class frame_fault : std::uint8_t {
  none,
  unknown_kind,         // neither data nor control
  reserved_bits,        // a field that has to be 0 is not
  too_large,            // a data frame above the announced limit
  control_too_large,    // a control frame above the limit of control frames
  unexpected_checksum,  // not 0 in an unchecked frame
  missing_checksum,     // an unchecked frame although checksums were agreed on
  bad_checksum,
  truncated_control,   // too short for its type
  overlong_control,    // bytes behind its body
  unknown_control,     // a type that must not be ignored
  bad_opening,         // the stream begins with another protocol
  own_opening,         // this end's own bytes came back: connected to itself, or to an echo service
  no_common_version,   // not a violation, but ends the stream as well
  unexpected_control,  // a known type where it does not belong
  after_goodbye,
};
inline constexpr std::size_t frame_fault_count =
    static_cast<std::size_t>(frame_fault::after_goodbye) + 1;

// The name of the enumerator.
[[nodiscard]] std::string_view name(frame_fault fault) noexcept;

// One sentence for logs and error texts.
[[nodiscard]] std::string_view explain(frame_fault fault) noexcept;

}  // namespace atbus::detail
