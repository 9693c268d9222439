// The payload of a request and of its response: what stands in front of the user's bytes.
//
//   request   0        8           16          20         24
//             | number | deadline  | time left | reserved | bytes
//   response  0        8
//             | number | bytes, or a text that says why there are none
//
// All little endian. The deadline is the time, in nanoseconds of the asking node's monotonic clock, when it
// stops waiting; only a node of the same host can compare it. The time left is in microseconds, from the moment
// the request entered the link; the largest number is no limit. doc/design/requests.md has the rest.
//
// Pure. An unproven peer may have made the bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "atbus/bytes.hpp"
#include "atbus/detail/little_endian.hpp"

namespace atbus::detail {

inline constexpr std::size_t request_head_size = 24;
inline constexpr std::size_t response_head_size = 8;
inline constexpr std::size_t failure_text_max = 1024;  // bytes; the rest is cut off

struct request_head {
  std::uint64_t number = 0;
  std::chrono::nanoseconds deadline{0};
  std::chrono::microseconds left{0};
};

inline constexpr std::chrono::microseconds no_time_limit{std::numeric_limits<std::uint32_t>::max()};

// What fits is written; 0 if the time is over.
[[nodiscard]] inline std::uint32_t time_left_field(std::chrono::nanoseconds deadline,
                                                   std::chrono::nanoseconds now) noexcept {
  const std::int64_t left = deadline > now ? (deadline - now).count() / 1000 : 0;
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(left, std::numeric_limits<std::uint32_t>::max()));
}

inline void encode_request(std::byte* at, std::uint64_t number, std::chrono::nanoseconds deadline,
                           std::chrono::nanoseconds now) noexcept {
  store_little_endian(at, number);
  store_little_endian(at + 8, static_cast<std::uint64_t>(deadline.count()));
  store_little_endian(at + 16, std::uint64_t{time_left_field(deadline, now)});
}
// Writes the time that is left into a request that has waited.
inline void renew_time_left(std::byte* at, std::chrono::nanoseconds now) noexcept {
  const auto deadline = static_cast<std::int64_t>(load_little_endian<std::uint64_t>(at + 8));
  store_little_endian(at + 16, time_left_field(std::chrono::nanoseconds{deadline}, now));
}
// False: it is malformed.
[[nodiscard]] inline bool decode_request(bytes_view payload, request_head& head) noexcept {
  if (payload.size() < request_head_size)
    return false;
  const auto left = load_little_endian<std::uint64_t>(payload.data() + 16);
  head = {load_little_endian<std::uint64_t>(payload.data()),
          std::chrono::nanoseconds{
              static_cast<std::int64_t>(load_little_endian<std::uint64_t>(payload.data() + 8))},
          std::chrono::microseconds{static_cast<std::uint32_t>(left)}};
  return head.deadline >= std::chrono::nanoseconds{0} && left >> 32 == 0;
}
[[nodiscard]] inline bool decode_response(bytes_view payload, std::uint64_t& number) noexcept {
  if (payload.size() < response_head_size)
    return false;
  number = load_little_endian<std::uint64_t>(payload.data());
  return true;
}

}  // namespace atbus::detail
