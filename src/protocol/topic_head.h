// What stands in front of the user's bytes in a copy of a message that was published to a topic.
//
//   0           8        16       24     25     26      27       28    32
//   | publisher | stream | number | what | hops | flags | length |  0  | name, and 0 up to a multiple of 8 | bytes
//
// All little endian. `hops` and `flags` are rewritten for each link. A mark has 8 bytes, the base; begin and
// refused have no publisher, no stream and no bytes.
//
// Pure. Nothing here allocates. doc/design/topics.md says what the fields are for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"
#include "core/text.h"
#include "protocol/routed_head.h"

namespace atbus::detail {

inline constexpr std::size_t topic_name_max = 128;
inline constexpr std::size_t topic_waiting_max = 65536;

[[nodiscard]] constexpr bool is_topic_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= topic_name_max && std::ranges::all_of(name, is_printable);
}

enum class topic_part : std::uint8_t {
  message,
  mark,  // nothing up to `number` comes any more; who does not know the stream is owed what follows `base`
  begin,    // the interest in that topic is known; what each stream owes is told next
  refused,  // the interest in that topic is not known: there is no room for it
};

struct topic_head {
  bus_id publisher{};
  std::uint64_t stream = 0;
  std::uint64_t number = 0;  // from 1; of a mark from 0; of begin and refused interest_body::turn
  std::uint64_t base = 0;    // of a mark
  topic_part what = topic_part::message;
  std::uint8_t hops_left = hops_max;
  bool unproven = false;    // as flag_unproven of a broadcast
  std::string_view name{};  // of a decoded one: in the message

  friend bool operator==(const topic_head&, const topic_head&) = default;
};
inline constexpr std::size_t topic_fixed_size = 32;
inline constexpr std::size_t topic_mark_size = 8;

// Bytes in front of the user's, or of the base.
[[nodiscard]] constexpr std::size_t topic_head_size(std::string_view name) noexcept {
  return topic_fixed_size + (name.size() + 7) / 8 * 8;
}

// Writes topic_head_size(head.name) bytes at `to`, and of a mark topic_mark_size more.
inline void encode(const topic_head& head, std::byte* to) noexcept {
  store_little_endian(to, head.publisher.value());
  store_little_endian(to + 8, head.stream);
  store_little_endian(to + 16, head.number);
  std::memset(to + 24, 0, topic_head_size(head.name) - 24);
  to[24] = static_cast<std::byte>(head.what);
  to[25] = static_cast<std::byte>(head.hops_left);
  to[26] = static_cast<std::byte>(head.unproven);
  to[27] = static_cast<std::byte>(head.name.size());
  std::memcpy(to + topic_fixed_size, head.name.data(), head.name.size());
  if (head.what == topic_part::mark)
    store_little_endian(to + topic_head_size(head.name), head.base);
}

// What a node on the way rewrites, in a copy that is there.
inline void set_way(std::byte* copy, std::uint8_t hops_left, bool unproven) noexcept {
  copy[25] = static_cast<std::byte>(hops_left);
  copy[26] = static_cast<std::byte>(unproven);
}

// Reads the payload of a message with flag_topic. False: it is malformed.
[[nodiscard]] inline bool decode(bytes_view payload, topic_head& head) noexcept {
  if (payload.size() < topic_fixed_size)
    return false;
  head.publisher = load_little_endian<std::uint64_t>(payload.data());
  head.stream = load_little_endian<std::uint64_t>(payload.data() + 8);
  head.number = load_little_endian<std::uint64_t>(payload.data() + 16);
  head.base = 0;
  head.what = static_cast<topic_part>(payload[24]);
  head.hops_left = static_cast<std::uint8_t>(payload[25]);
  head.unproven = payload[26] == std::byte{1};
  const auto length = static_cast<std::size_t>(payload[27]);
  if (head.what > topic_part::refused || head.hops_left > hops_max || payload[26] > std::byte{1} ||
      load_little_endian<std::uint32_t>(payload.data() + 28) != 0)
    return false;
  const std::string_view text = as_text(payload.subspan(topic_fixed_size));
  if (length > text.size() || !is_topic_name(text.substr(0, length)))
    return false;
  head.name = text.substr(0, length);
  const std::size_t size = topic_head_size(head.name);
  if (payload.size() < size)
    return false;
  const bytes_view filling =
      payload.subspan(topic_fixed_size + length, size - topic_fixed_size - length);
  if (!std::ranges::all_of(filling, [](std::byte one) { return one == std::byte{0}; }))
    return false;
  switch (head.what) {
    case topic_part::message:
      return head.publisher != bus_id{} && head.stream != 0 && head.number != 0;
    case topic_part::mark:
      if (payload.size() != size + topic_mark_size)
        return false;
      head.base = load_little_endian<std::uint64_t>(payload.data() + size);
      return head.publisher != bus_id{} && head.stream != 0 && head.base <= head.number;
    case topic_part::begin:
    case topic_part::refused:
      break;
  }
  return head.publisher == bus_id{} && head.stream == 0 && payload.size() == size;
}

}  // namespace atbus::detail
