#include "channel/stream/frame_reader.h"

#include <cstdio>
#include <string>
#include <utility>

#include "core/error_text.h"

namespace atbus::detail {
namespace {

// A checked control frame of a length that a hello can have.
constexpr bool can_be_hello(std::uint32_t word) noexcept {
  const std::uint32_t unchecked = word ^ frame_checked_bit;
  return unchecked >= make_frame_word(frame_kind::control, hello_size) &&
         unchecked <= make_frame_word(frame_kind::control, control_payload_max);
}

std::string hex(std::uint64_t word) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%08llx", static_cast<unsigned long long>(word));
  return text;
}

std::string range_text(std::uint16_t low, std::uint16_t high) {
  return low == high ? "version " + std::to_string(low)
                     : "versions " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

void frame_reader::fail(frame_fault fault, std::uint64_t found, std::uint64_t expected) noexcept {
  fault_ = fault;
  found_ = found;
  expected_ = expected;
}

void frame_reader::fail_checksum(const std::byte* at) noexcept {
  const std::uint64_t header = load_frame_header(at);
  fail(frame_fault::bad_checksum, header >> 32,
       crc32c_frame(at, frame_length(static_cast<std::uint32_t>(header))));
}

frame_fault frame_reader::check_header(std::uint32_t word, std::uint32_t checksum) const noexcept {
  if (state_ == state::opening)
    return can_be_hello(word) ? frame_fault::none : frame_fault::bad_opening;
  const std::uint32_t kind = word >> frame_kind_shift;
  if (kind > static_cast<std::uint32_t>(frame_kind::control))
    return frame_fault::unknown_kind;
  const std::size_t length = frame_length(word);
  if (kind == static_cast<std::uint32_t>(frame_kind::data)) {
    if (length > limit_)
      return frame_fault::too_large;
  } else if (length > control_payload_max) {
    return frame_fault::control_too_large;
  } else if (length < control_head_size) {
    return frame_fault::truncated_control;
  }
  if (is_checked(word))
    return frame_fault::none;
  if (checksum != 0)
    return frame_fault::unexpected_checksum;
  return agreed_.checksums ? frame_fault::missing_checksum : frame_fault::none;
}

frame_reader::step frame_reader::other_frame(const std::byte* at, std::size_t left) noexcept {
  if (state_ == state::ended && left != 0) {
    fail(frame_fault::after_goodbye);
    return step::failed;
  }
  needed_ = frame_header_size;
  if (left < frame_header_size)
    return step::needs_more;
  const auto word = load_little_endian<std::uint32_t>(at);
  const auto checksum = load_little_endian<std::uint32_t>(at + 4);
  const frame_fault in_header = check_header(word, checksum);
  if (in_header != frame_fault::none) {
    fail(in_header, word, checksum);
    return step::failed;
  }
  const std::size_t length = frame_length(word);
  needed_ = frame_size(length);
  if (left < needed_)
    return step::needs_more;
  if (is_checked(word) && crc32c_frame(at, length) != checksum) {
    fail_checksum(at);
    return step::failed;
  }
  return control_frame({at + frame_header_size, length});
}

frame_reader::step frame_reader::control_frame(bytes_view payload) noexcept {
  bool known = true;
  const frame_fault found =
      state_ == state::opening ? take_hello(payload) : take_control(payload, known);
  if (found != frame_fault::none) {
    const std::byte* const frame = payload.data() - frame_header_size;
    fail(found, load_little_endian<std::uint32_t>(frame),
         load_little_endian<std::uint32_t>(payload.data()));
    return step::failed;
  }
  return known ? step::deliver : step::skip;
}

frame_fault frame_reader::take_hello(bytes_view payload) noexcept {
  const frame_fault unreadable = read_hello(payload, theirs_);
  if (unreadable != frame_fault::none)
    return unreadable;
  const frame_fault unfit = agree(own_, theirs_, agreed_);
  if (unfit == frame_fault::none) {
    state_ = state::open;
    in_checked_run_ = agreed_.checksums;
  }
  return unfit;
}

frame_fault frame_reader::take_control(bytes_view payload, bool& known) noexcept {
  control_type type{};
  const frame_fault untyped = read_control_type(payload, type);
  if (untyped != frame_fault::none)
    return untyped;
  const bool lanes = agreed_.lanes || agreed_.lane_pair;
  switch (type) {
    case control_type::hello:
      return frame_fault::unexpected_control;
    case control_type::switch_to_lanes:
      return lanes ? read_switch(payload) : frame_fault::unexpected_control;
    case control_type::lanes: {
      std::uint32_t lane = no_lane;
      return lanes ? read_lanes(payload, lane) : frame_fault::unexpected_control;
    }
    case control_type::goodbye: {
      const frame_fault unreadable = read_goodbye(payload, goodbye_reason_);
      if (unreadable == frame_fault::none)
        state_ = state::ended;
      return unreadable;
    }
  }
  known = false;
  return (static_cast<std::uint16_t>(type) & control_ignorable) != 0 ? frame_fault::none
                                                                     : frame_fault::unknown_control;
}

error frame_reader::problem() const noexcept {
  if (fault_ == frame_fault::none)
    return {};
  const errc code =
      fault_ == frame_fault::no_common_version ? errc::version_mismatch : errc::protocol_error;
  return error_of(code, [&]() -> error { return {code, problem_text()}; });
}

std::string frame_reader::problem_text() const {
  std::string text{explain(fault_)};
  switch (fault_) {
    case frame_fault::no_common_version:
      return text + " It speaks " + range_text(theirs_.version_min, theirs_.version_max) +
             ", this one " + range_text(own_.version_min, own_.version_max) +
             ". Bring both to the same version.";
    case frame_fault::too_large:
      return text + " Its length is " +
             std::to_string(frame_length(static_cast<std::uint32_t>(found_))) +
             " bytes, the limit " + std::to_string(limit_) + '.';
    case frame_fault::bad_checksum:
      return text + " It carries " + hex(found_) + ", its bytes make " + hex(expected_) + '.';
    case frame_fault::none:
    case frame_fault::own_opening:
    case frame_fault::after_goodbye:
      return text;
    default:
      return text + " Its first words are " + hex(found_) + " and " + hex(expected_) + '.';
  }
}

}  // namespace atbus::detail
