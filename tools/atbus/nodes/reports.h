// The reports of this host's nodes, and what two of them say of the time in between.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atbus/node_report.hpp"

namespace atbus::tool {

// What a report says of its node's process.
enum class node_life : std::uint8_t {
  live,
  silent,  // its process lives, and has not reported for long: stopped, stuck, or never polled
  dead,    // its process ended without closing the node
  unreadable,
};
// `at`: nanoseconds since 1970.
[[nodiscard]] node_life life_of(const node_report_file& file, std::uint64_t at) noexcept;
// For people, with what to do.
[[nodiscard]] std::string words_for_life(const node_report_file& file, std::uint64_t at);
[[nodiscard]] std::uint64_t now_since_1970() noexcept;

// Per second, between two reports of one incarnation.
struct node_rates {
  double received = 0;
  double received_bytes = 0;
  double sent = 0;
  double sent_bytes = 0;
  double relayed = 0;
  double drops = 0;
};
// Nothing: the reports are of one moment.
[[nodiscard]] std::optional<node_rates> rates_between(const node_report& before,
                                                      const node_report& after) noexcept;

// Messages that did not get where they were to go, for whatever reason.
[[nodiscard]] std::uint64_t drops_of(const node_stats& stats) noexcept;
[[nodiscard]] std::uint64_t queued_bytes_of(const node_report& report) noexcept;
[[nodiscard]] std::size_t connected_of(const node_report& report) noexcept;
// The longest of all peers.
[[nodiscard]] std::chrono::nanoseconds round_trip_of(const node_report& report) noexcept;

}  // namespace atbus::tool
