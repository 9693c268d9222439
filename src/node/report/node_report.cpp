#include "atbus/node_report.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace atbus {

void time_histogram::add(std::chrono::nanoseconds time, std::uint64_t times) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max(time.count(), std::int64_t{0}));
  counts[std::min(static_cast<std::size_t>(std::bit_width(ns)), classes - 1)] += times;
}

std::uint64_t time_histogram::total() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::chrono::nanoseconds time_histogram::quantile(double share) const noexcept {
  const double wanted = std::ceil(static_cast<double>(total()) * std::clamp(share, 0.0, 1.0));
  double seen = 0;
  for (std::size_t i = 0; i != classes; ++i) {
    seen += static_cast<double>(counts[i]);
    if (counts[i] != 0 && seen >= wanted)
      return std::chrono::nanoseconds{std::int64_t{1} << i};
  }
  return std::chrono::nanoseconds{0};
}

std::string_view name(peer_channel channel) noexcept {
  switch (channel) {
    case peer_channel::none:
      break;
    case peer_channel::memory:
      return "memory";
    case peer_channel::lanes:
      return "lanes";
    case peer_channel::shared_memory:
      return "shared_memory";
    case peer_channel::unix_socket:
      return "unix_socket";
    case peer_channel::tcp:
      return "tcp";
    case peer_channel::relayed:
      return "relayed";
    case peer_channel::nats:
      return "nats";
  }
  return "none";
}

std::string_view name(peer_relation relation) noexcept {
  switch (relation) {
    case peer_relation::peer:
      break;
    case peer_relation::child:
      return "child";
    case peer_relation::parent:
      return "parent";
    case peer_relation::sibling:
      return "sibling";
    case peer_relation::client:
      return "client";
  }
  return "peer";
}

const std::vector<node_counter>& node_counters() {
  using stats = node_stats;
  using strangers = stranger_stats;
  static const std::vector<node_counter> all = {
      {"accepted", &stats::accepted, nullptr},
      {"accepted_bytes", &stats::accepted_bytes, nullptr},
      {"delivered", &stats::delivered, nullptr},
      {"delivered_bytes", &stats::delivered_bytes, nullptr},
      {"redelivered", &stats::redelivered, nullptr},
      {"commands", &stats::commands, nullptr},
      {"replies", &stats::replies, nullptr},
      {"stray_replies", &stats::stray_replies, nullptr},
      {"requests", &stats::requests, nullptr},
      {"expired_requests", &stats::expired_requests, nullptr},
      {"responses", &stats::responses, nullptr},
      {"late_responses", &stats::late_responses, nullptr},
      {"malformed", &stats::malformed, nullptr},
      {"would_block", &stats::would_block, nullptr},
      {"refused", &stats::refused, nullptr},
      {"not_delivered", &stats::not_delivered, nullptr},
      {"outcome_unknown", &stats::outcome_unknown, nullptr},
      {"deadline_drops", &stats::deadline_drops, nullptr},
      {"overflow_drops", &stats::overflow_drops, nullptr},
      {"duplicates", &stats::duplicates, nullptr},
      {"broadcast_drops", &stats::broadcast_drops, nullptr},
      {"registrations", &stats::registrations, nullptr},
      {"registrations_failed", &stats::registrations_failed, nullptr},
      {"links_lost", &stats::links_lost, nullptr},
      {"violations", &stats::violations, nullptr},
      {"dials", &stats::dials, nullptr},
      {"relayed", &stats::relayed, nullptr},
      {"relay_drops", &stats::relay_drops, nullptr},
      {"access_denied", &stats::access_denied, nullptr},
      {"acknowledgements", &stats::acknowledgements, nullptr},
      {"sessions_forgotten", &stats::sessions_forgotten, nullptr},
      {"strangers.silent", nullptr, &strangers::silent},
      {"strangers.late", nullptr, &strangers::late},
      {"strangers.crowded", nullptr, &strangers::crowded},
      {"strangers.talkative", nullptr, &strangers::talkative},
      {"strangers.faulty", nullptr, &strangers::faulty},
      {"strangers.delayed", nullptr, &strangers::delayed},
      {"published", &stats::published, nullptr},
      {"topic_copies", &stats::topic_copies, nullptr},
      {"topic_drops", &stats::topic_drops, nullptr},
      {"topic_messages", &stats::topic_messages, nullptr},
      {"topic_missed", &stats::topic_missed, nullptr},
      {"topic_strays", &stats::topic_strays, nullptr},
      {"subscriptions_refused", &stats::subscriptions_refused, nullptr},
      {"blobs_sent", &stats::blobs_sent, nullptr},
      {"blobs_failed", &stats::blobs_failed, nullptr},
      {"blobs_received", &stats::blobs_received, nullptr},
      {"blobs_broken", &stats::blobs_broken, nullptr},
      {"blobs_refused", &stats::blobs_refused, nullptr},
  };
  return all;
}

}  // namespace atbus
