// The reports of this host's nodes, and what two of them say of the time in between.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atbus/node_report.hpp"
#include "http/report/node_life.h"

namespace atbus::tool {

using detail::age_of;
using detail::connected_of;
using detail::is_linked;
using detail::life_of;
using detail::node_life;
using detail::now_since_1970;
using detail::queued_bytes_of;

// For people, with what to do. `at`: nanoseconds since 1970.
[[nodiscard]] std::string words_for_life(const node_report_file& file, std::uint64_t at);

// Whether it is what a dead incarnation has left of a node that runs again.
[[nodiscard]] bool runs_again(const node_report_file& file,
                              const std::vector<node_report_file>& all) noexcept;

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
// The longest of all peers.
[[nodiscard]] std::chrono::nanoseconds round_trip_of(const node_report& report) noexcept;

}  // namespace atbus::tool
