#include "atbus/nodes/reports.h"

#include <fmt/format.h>

#include <algorithm>

#include "atbus/format.h"

namespace atbus::tool {
namespace {

// Three times as long as a node that is polled takes between two reports.
constexpr std::uint64_t silent_after_ns = 15'000'000'000;

std::uint64_t age_of(const node_report& report, std::uint64_t at) noexcept {
  return at > report.updated_at ? at - report.updated_at : 0;
}

}  // namespace

std::uint64_t now_since_1970() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

node_life life_of(const node_report_file& file, std::uint64_t at) noexcept {
  if (!file.problem)
    return node_life::unreadable;
  if (!file.alive)
    return node_life::dead;
  return age_of(file.report, at) > silent_after_ns ? node_life::silent : node_life::live;
}

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

std::uint64_t drops_of(const node_stats& stats) noexcept {
  return stats.not_delivered + stats.outcome_unknown + stats.relay_drops + stats.broadcast_drops;
}

std::uint64_t queued_bytes_of(const node_report& report) noexcept {
  std::uint64_t all = 0;
  for (const peer_report& one : report.peers)
    all += one.queued_bytes;
  return all;
}

std::size_t connected_of(const node_report& report) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(report.peers, [](const peer_report& one) {
    return one.channel != peer_channel::none && !one.away;
  }));
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
