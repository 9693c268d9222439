// What both ends do with frames beyond beginning them: checksums, and what a wrong one is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/detail/frame.hpp"

namespace atbus::detail {

// Makes all complete frames in a run of queue memory checked ones; the run begins with a frame.
// Returns how many bytes they take: the run's, unless it ends inside a frame.
std::size_t seal(mutable_bytes run) noexcept;

// What a peer did that no correct peer does. Each has a counter and a sentence of its own; each
// ends the stream.
enum class frame_fault : std::uint8_t {
  none,
  unknown_kind,         // neither data nor control
  reserved_bits,        // a field that has to be 0 is not
  too_large,            // a data frame longer than was announced as the limit
  control_too_large,    // a control frame longer than any may be
  unexpected_checksum,  // not 0 in an unchecked frame
  missing_checksum,     // an unchecked frame although checksums were agreed on
  bad_checksum,
  truncated_control,   // too short for its type
  overlong_control,    // bytes left over behind its body
  unknown_control,     // a type that may not be ignored
  bad_opening,         // does not begin as a stream of ours does: another protocol
  own_opening,         // our own bytes come back: connected to itself, or to an echo
  no_common_version,   // the only one that is no breach of protocol
  unexpected_control,  // a known type where it does not belong
  after_goodbye,
};
inline constexpr std::size_t frame_fault_count =
    static_cast<std::size_t>(frame_fault::after_goodbye) + 1;

// The identifier as written above.
[[nodiscard]] std::string_view name(frame_fault fault) noexcept;

// What was found, as a sentence for logs and people.
[[nodiscard]] std::string_view explain(frame_fault fault) noexcept;

}  // namespace atbus::detail
