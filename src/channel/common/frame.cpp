#include "channel/common/frame.h"

#include <array>

#include "core/crc32c.h"

namespace atbus::detail {
namespace {

struct fault_text {
  frame_fault fault;
  std::string_view name;
  std::string_view explanation;
};

constexpr std::array<fault_text, frame_fault_count> fault_texts{{
    {frame_fault::none, "none", "Nothing is wrong with the stream."},
    {frame_fault::unknown_kind, "unknown_kind",
     "The other side sent a frame of a kind that does not exist in the agreed version."},
    {frame_fault::reserved_bits, "reserved_bits",
     "The other side set bits that have to be zero in the agreed version."},
    {frame_fault::too_large, "too_large",
     "The other side sent a message longer than this end had announced to accept."},
    {frame_fault::control_too_large, "control_too_large",
     "The other side sent a control frame above the limit of control frames."},
    {frame_fault::unexpected_checksum, "unexpected_checksum",
     "The other side sent a checksum in a frame that claims to carry none."},
    {frame_fault::missing_checksum, "missing_checksum",
     "The other side sent a frame without a checksum although checksums were agreed on."},
    {frame_fault::bad_checksum, "bad_checksum",
     "A frame's checksum does not match its bytes: they were changed on the way."},
    {frame_fault::truncated_control, "truncated_control",
     "The other side sent a control frame too short for its type."},
    {frame_fault::overlong_control, "overlong_control",
     "The other side sent a control frame longer than its type allows."},
    {frame_fault::unknown_control, "unknown_control",
     "The other side sent a control frame of a type that this version does not know and must not "
     "ignore."},
    {frame_fault::bad_opening, "bad_opening",
     "The other side does not speak this protocol: its first bytes are not the opening of a "
     "channel."},
    {frame_fault::own_opening, "own_opening",
     "This end's own opening came back: the address leads to itself or to a service that echoes."},
    {frame_fault::no_common_version, "no_common_version",
     "The two sides have no version of the stream protocol in common."},
    {frame_fault::unexpected_control, "unexpected_control",
     "The other side sent a control frame where it does not belong."},
    {frame_fault::after_goodbye, "after_goodbye",
     "The other side sent more after it had said goodbye."},
}};

constexpr bool rows_are_in_order() noexcept {
  for (std::size_t i = 0; i < frame_fault_count; ++i) {
    if (fault_texts[i].fault != static_cast<frame_fault>(i))
      return false;
  }
  return true;
}
static_assert(rows_are_in_order());

void make_checked(std::byte* at, std::uint32_t word, std::size_t length) noexcept {
  store_little_endian<std::uint32_t>(at, word | frame_checked_bit);
  store_little_endian<std::uint32_t>(at + 4, crc32c_frame(at, length));
}

}  // namespace

std::size_t shorten_frame(std::byte* at, std::size_t length) noexcept {
  const auto word = load_little_endian<std::uint32_t>(at);
  assert(length <= frame_length(word));
  const std::size_t size = frame_size(length);
  if (length % 8 != 0)
    std::memset(at + frame_header_size + length, 0, size - frame_header_size - length);
  store_little_endian<std::uint64_t>(at, (word & ~frame_length_mask) | length);
  return size;
}

void seal_frame(std::byte* at) noexcept {
  const auto word = load_little_endian<std::uint32_t>(at);
  make_checked(at, word, frame_length(word));
}

bool checksum_holds(const std::byte* at) noexcept {
  const auto word = load_little_endian<std::uint32_t>(at);
  return !is_checked(word) ||
         crc32c_frame(at, frame_length(word)) == load_little_endian<std::uint32_t>(at + 4);
}

std::size_t seal(mutable_bytes run) noexcept {
  std::byte* at = run.data();
  std::size_t left = run.size();
  while (left >= frame_header_size) {
    const auto word = load_little_endian<std::uint32_t>(at);
    const std::size_t length = frame_length(word);
    const std::size_t size = frame_size(length);
    if (size > left)
      break;
    make_checked(at, word, length);
    at += size;
    left -= size;
  }
  return run.size() - left;
}

std::string_view name(frame_fault fault) noexcept {
  return fault_texts[static_cast<std::size_t>(fault)].name;
}

std::string_view explain(frame_fault fault) noexcept {
  return fault_texts[static_cast<std::size_t>(fault)].explanation;
}

}  // namespace atbus::detail
