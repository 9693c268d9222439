#include "atbus/nodes/reports.h"

#include <fmt/format.h>

#include <algorithm>

#include "atbus/format.h"

namespace atbus::tool {

std::string words_for_life(const node_report_file& file, std::uint64_t at) {
  switch (life_of(file, at)) {
    case node_life::live:
      return "live";
    case node_life::silent:
      return fmt::format(
          "silent for {}: stopped, stuck, or not polled",
          duration(std::chrono::nanoseconds{static_cast<std::int64_t>(age_of(file.report, at))}));
    case node_life::dead:
      return "dead: its process ended without closing it, after " + date(file.report.updated_at);
    case node_life::unreadable:
      break;
  }
  return fmt::format("{}: {}: {}", name(file.problem.code()), file.path, file.problem.text());
}

bool runs_again(const node_report_file& file, const std::vector<node_report_file>& all) noexcept {
  return !file.alive && file.problem && std::ranges::any_of(all, [&](const auto& other) {
    return other.alive && other.problem && other.report.id == file.report.id;
  });
}

std::uint64_t drops_of(const node_stats& stats) noexcept {
  return stats.not_delivered + stats.outcome_unknown + stats.relay_drops + stats.broadcast_drops;
}

std::chrono::nanoseconds round_trip_of(const node_report& report) noexcept {
  std::chrono::nanoseconds longest{0};
  for (const peer_report& one : report.peers)
    longest = std::max(longest, one.round_trip);
  return longest;
}

std::optional<node_rates> rates_between(const node_report& before,
                                        const node_report& after) noexcept {
  if (after.updated_at <= before.updated_at || after.incarnation != before.incarnation)
    return std::nullopt;
  const double seconds = static_cast<double>(after.updated_at - before.updated_at) * 1e-9;
  // A counter of a hostile file may go back.
  const auto rate = [&](std::uint64_t old_count, std::uint64_t new_count) {
    return new_count > old_count ? static_cast<double>(new_count - old_count) / seconds : 0;
  };
  const node_stats& a = before.stats;
  const node_stats& b = after.stats;
  return node_rates{.received = rate(a.delivered, b.delivered),
                    .received_bytes = rate(a.delivered_bytes, b.delivered_bytes),
                    .sent = rate(a.accepted, b.accepted),
                    .sent_bytes = rate(a.accepted_bytes, b.accepted_bytes),
                    .relayed = rate(a.relayed, b.relayed),
                    .drops = rate(drops_of(a), drops_of(b))};
}

}  // namespace atbus::tool
