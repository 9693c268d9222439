// What a report says of its node's process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "atbus/node_report.hpp"

namespace atbus::detail {

enum class node_life : std::uint8_t {
  live,
  silent,  // its process lives, and has not reported for long: stopped, stuck, or never polled
  dead,    // its process ended without closing the node
  unreadable,
};
// As written above.
[[nodiscard]] std::string_view name(node_life life) noexcept;
// `at`: nanoseconds since 1970.
[[nodiscard]] node_life life_of(const node_report_file& file, std::uint64_t at) noexcept;
// In nanoseconds; 0 for a report of the future.
[[nodiscard]] std::uint64_t age_of(const node_report& report, std::uint64_t at) noexcept;
[[nodiscard]] std::uint64_t now_since_1970() noexcept;

// Messages to it get there now.
[[nodiscard]] bool is_linked(const peer_report& peer) noexcept;
[[nodiscard]] std::size_t connected_of(const node_report& report) noexcept;
[[nodiscard]] std::uint64_t queued_bytes_of(const node_report& report) noexcept;

}  // namespace atbus::detail
