#include "channel/stream/opening.h"

#include <algorithm>
#include <cstring>

namespace atbus::detail {
namespace {

// Offsets in a hello's payload.
constexpr std::size_t flags_at = 4;
constexpr std::size_t magic_at = 8;
constexpr std::size_t version_min_at = 16;
constexpr std::size_t version_max_at = 18;
constexpr std::size_t payload_max_at = 20;
constexpr std::size_t session_at = 24;
static_assert(session_at + sizeof(std::uint64_t) == hello_size);

constexpr std::uint32_t flag_wants_checksums = 1;
constexpr std::uint32_t flag_offers_lanes = 2;
constexpr std::uint32_t flag_offers_lane_pair = 4;

// Offsets in a goodbye's payload.
constexpr std::size_t reason_at = 4;
constexpr std::size_t goodbye_reserved_at = 6;

// Offset in the payload of lanes.
constexpr std::size_t lane_at = 4;

// A control frame whose payload has only the type.
template <std::size_t PayloadSize>
std::array<std::byte, frame_size(PayloadSize)> blank_frame(control_type type) noexcept {
  std::array<std::byte, frame_size(PayloadSize)> frame{};
  std::byte* const payload = begin_frame(frame.data(), frame_kind::control, PayloadSize);
  store_little_endian(payload, static_cast<std::uint16_t>(type));
  return frame;
}

frame_fault check_size(bytes_view payload, std::size_t size) noexcept {
  if (payload.size() < size)
    return frame_fault::truncated_control;
  return payload.size() > size ? frame_fault::overlong_control : frame_fault::none;
}

bool has_reserved_bits(bytes_view payload) noexcept {
  return load_little_endian<std::uint16_t>(payload.data() + 2) != 0;
}

}  // namespace

std::array<std::byte, frame_size(hello_size)> hello_frame(const hello& own) noexcept {
  auto frame = blank_frame<hello_size>(control_type::hello);
  std::byte* const payload = frame.data() + frame_header_size;
  store_little_endian(payload + flags_at, (own.wants_checksums ? flag_wants_checksums : 0) |
                                              (own.offers_lanes ? flag_offers_lanes : 0) |
                                              (own.offers_lane_pair ? flag_offers_lane_pair : 0));
  std::memcpy(payload + magic_at, stream_magic, sizeof stream_magic);
  store_little_endian(payload + version_min_at, own.version_min);
  store_little_endian(payload + version_max_at, own.version_max);
  store_little_endian(payload + payload_max_at, own.payload_max);
  store_little_endian(payload + session_at, own.session);
  seal_frame(frame.data());
  return frame;
}

std::array<std::byte, frame_size(switch_size)> switch_frame(bool checked) noexcept {
  auto frame = blank_frame<switch_size>(control_type::switch_to_lanes);
  if (checked)
    seal_frame(frame.data());
  return frame;
}

std::array<std::byte, frame_size(goodbye_size)> goodbye_frame(errc reason, bool checked) noexcept {
  auto frame = blank_frame<goodbye_size>(control_type::goodbye);
  store_little_endian(frame.data() + frame_header_size + reason_at,
                      static_cast<std::uint16_t>(reason));
  if (checked)
    seal_frame(frame.data());
  return frame;
}

std::array<std::byte, frame_size(lanes_size)> lanes_frame(std::uint32_t lane,
                                                          bool checked) noexcept {
  auto frame = blank_frame<lanes_size>(control_type::lanes);
  store_little_endian(frame.data() + frame_header_size + lane_at, lane);
  if (checked)
    seal_frame(frame.data());
  return frame;
}

frame_fault read_control_type(bytes_view payload, control_type& type) noexcept {
  if (payload.size() < control_head_size)
    return frame_fault::truncated_control;
  type = static_cast<control_type>(load_little_endian<std::uint16_t>(payload.data()));
  return frame_fault::none;
}

frame_fault read_hello(bytes_view payload, hello& theirs) noexcept {
  control_type type{};
  if (payload.size() < hello_size)
    return frame_fault::truncated_control;
  if (read_control_type(payload, type) != frame_fault::none || type != control_type::hello)
    return frame_fault::bad_opening;
  const std::byte* const at = payload.data();
  if (std::memcmp(at + magic_at, stream_magic, sizeof stream_magic) != 0)
    return frame_fault::bad_opening;
  if (has_reserved_bits(payload))
    return frame_fault::reserved_bits;
  // Unknown flags are offers that this version does not take.
  const auto flags = load_little_endian<std::uint32_t>(at + flags_at);
  theirs.wants_checksums = (flags & flag_wants_checksums) != 0;
  theirs.offers_lanes = (flags & flag_offers_lanes) != 0;
  theirs.offers_lane_pair = (flags & flag_offers_lane_pair) != 0;
  theirs.version_min = load_little_endian<std::uint16_t>(at + version_min_at);
  theirs.version_max = load_little_endian<std::uint16_t>(at + version_max_at);
  theirs.payload_max = load_little_endian<std::uint32_t>(at + payload_max_at);
  theirs.session = load_little_endian<std::uint64_t>(at + session_at);
  if (theirs.version_min == 0 || theirs.version_min > theirs.version_max)
    return frame_fault::bad_opening;
  return frame_fault::none;
}

frame_fault read_switch(bytes_view payload) noexcept {
  const frame_fault size = check_size(payload, switch_size);
  if (size != frame_fault::none)
    return size;
  return has_reserved_bits(payload) ? frame_fault::reserved_bits : frame_fault::none;
}

frame_fault read_goodbye(bytes_view payload, errc& reason) noexcept {
  const frame_fault size = check_size(payload, goodbye_size);
  if (size != frame_fault::none)
    return size;
  const std::byte* const at = payload.data();
  if (has_reserved_bits(payload) ||
      load_little_endian<std::uint16_t>(at + goodbye_reserved_at) != 0)
    return frame_fault::reserved_bits;
  reason = static_cast<errc>(load_little_endian<std::uint16_t>(at + reason_at));
  return frame_fault::none;
}

frame_fault read_lanes(bytes_view payload, std::uint32_t& lane) noexcept {
  const frame_fault size = check_size(payload, lanes_size);
  if (size != frame_fault::none)
    return size;
  lane = load_little_endian<std::uint32_t>(payload.data() + lane_at);
  return has_reserved_bits(payload) ? frame_fault::reserved_bits : frame_fault::none;
}

frame_fault agree(const hello& own, const hello& theirs, agreement& agreed) noexcept {
  if (theirs.session == own.session)
    return frame_fault::own_opening;
  const std::uint16_t lowest = std::max(own.version_min, theirs.version_min);
  const std::uint16_t highest = std::min(own.version_max, theirs.version_max);
  if (lowest > highest)
    return frame_fault::no_common_version;
  agreed.version = highest;
  agreed.checksums = own.wants_checksums || theirs.wants_checksums;
  agreed.lanes = own.offers_lanes && theirs.offers_lanes;
  agreed.lane_pair = own.offers_lane_pair && theirs.offers_lane_pair;
  agreed.send_payload_max = std::min(theirs.payload_max, frame_payload_max);
  agreed.peer_session = theirs.session;
  return frame_fault::none;
}

}  // namespace atbus::detail
