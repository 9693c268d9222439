#include "http/metrics.h"

#include <string_view>
#include <utility>
#include <vector>

#include "http/metric_families.h"
#include "http/report/node_life.h"

namespace atbus::detail {
namespace {

using prometheus::MetricType;

constexpr std::string_view prefix_of_strangers = "strangers.";
// From 1 ns to 4.6 minutes, and from 16 us to 17 s.
constexpr bucket_range handling_buckets = {.first = 0, .last = 38, .step = 1};
constexpr bucket_range round_trip_buckets = {.first = 14, .last = 34, .step = 2};
constexpr const char* estimated_sum = "; the sum is estimated from the middles of the classes";

double as_number(std::uint64_t of) noexcept {
  return static_cast<double>(of);
}
double as_seconds(std::uint64_t nanoseconds) noexcept {
  return static_cast<double>(nanoseconds) * 1e-9;
}

void add_node(metric_families& to, const node_report_file& file, std::uint64_t at) {
  const node_report& report = file.report;
  to.begin(MetricType::Gauge, "atbus_node_info", "Which node this is");
  to.add(1, {{"id", report.id.to_string()},
             {"incarnation", bus_id{report.incarnation}.to_hex()},
             {"program", report.program},
             {"version", report.version}});
  to.begin(MetricType::Gauge, "atbus_node_live",
           "1: the node is polled; 0: its process has died, or it has not reported for 15 s");
  to.add(life_of(file, at) == node_life::live ? 1 : 0);
  to.begin(MetricType::Gauge, "atbus_start_time_seconds", "When the node was made, since 1970");
  to.add(as_seconds(report.started_at));
  to.begin(MetricType::Gauge, "atbus_report_time_seconds",
           "When the node has reported these values, since 1970");
  to.add(as_seconds(report.updated_at));
  to.begin(MetricType::Gauge, "atbus_message_limit_bytes", "The longest message, in payload bytes");
  to.add(as_number(report.message_limit));
  to.begin(MetricType::Gauge, "atbus_parent_linked", "1: the node has a connected parent");
  to.add(report.parent != bus_id{} ? 1 : 0);
  to.begin(MetricType::Histogram, "atbus_handling_seconds",
           "How long messages took to be handled, in one of 16 polls" + std::string{estimated_sum});
  to.add(report.handling, handling_buckets);
}

void add_counters(metric_families& to, const node_stats& stats) {
  for (const node_counter& one : node_counters()) {
    if (one.field == nullptr)
      continue;
    const std::string name{one.name};
    to.begin(MetricType::Counter, "atbus_" + name + "_total", "node_stats::" + name);
    to.add(as_number(one.in(stats)));
  }
  to.begin(MetricType::Counter, "atbus_strangers_total",
           "Connections that did not register, by the limit that they met (stranger_stats)");
  for (const node_counter& one : node_counters()) {
    if (one.of_strangers != nullptr)
      to.add(as_number(one.in(stats)),
             {{"limit", std::string{one.name.substr(prefix_of_strangers.size())}}});
  }
}

// How many peers of each kind there are.
void add_peer_numbers(metric_families& to, const node_report& report, std::size_t shown) {
  constexpr std::size_t relations = static_cast<std::size_t>(peer_relation::client) + 1;
  std::size_t linked[relations] = {};
  std::size_t others[relations] = {};
  for (const peer_report& one : report.peers)
    ++(is_linked(one) ? linked : others)[static_cast<std::size_t>(one.relation)];
  to.begin(MetricType::Gauge, "atbus_peers", "Nodes that this one knows, and clients");
  for (std::size_t i = 0; i != relations; ++i) {
    const std::string relation{name(static_cast<peer_relation>(i))};
    to.add(as_number(linked[i]), {{"relation", relation}, {"linked", "true"}});
    to.add(as_number(others[i]), {{"relation", relation}, {"linked", "false"}});
  }
  to.begin(MetricType::Gauge, "atbus_peers_known", "All of them, also those beyond the report");
  to.add(as_number(report.peers_in_all));
  to.begin(MetricType::Gauge, "atbus_peers_shown",
           "Peers with metrics of their own: the first ones by id, without clients");
  to.add(as_number(shown));
}

// One kind of value that each peer has.
struct peer_value {
  MetricType type;
  const char* name;
  const char* help;
  double (*of)(const peer_report&);
};

constexpr peer_value peer_values[] = {
    {MetricType::Gauge, "atbus_peer_linked", "1: messages to the peer get there now",
     [](const peer_report& one) { return is_linked(one) ? 1.0 : 0.0; }},
    {MetricType::Gauge, "atbus_peer_wanted", "1: the node dials the peer until it answers",
     [](const peer_report& one) { return one.wanted ? 1.0 : 0.0; }},
    {MetricType::Counter, "atbus_peer_sent_total", "Messages accepted for the peer",
     [](const peer_report& one) { return as_number(one.sent); }},
    {MetricType::Counter, "atbus_peer_sent_bytes_total", "Payload bytes of these",
     [](const peer_report& one) { return as_number(one.sent_bytes); }},
    {MetricType::Counter, "atbus_peer_received_total", "Messages of the peer that were handled",
     [](const peer_report& one) { return as_number(one.received); }},
    {MetricType::Counter, "atbus_peer_received_bytes_total", "Payload bytes of these",
     [](const peer_report& one) { return as_number(one.received_bytes); }},
    {MetricType::Counter, "atbus_peer_would_block_total", "Sends refused for lack of room",
     [](const peer_report& one) { return as_number(one.would_block); }},
    {MetricType::Counter, "atbus_peer_undelivered_total",
     "Messages with the outcome not_delivered or outcome_unknown",
     [](const peer_report& one) { return as_number(one.undelivered); }},
    {MetricType::Counter, "atbus_peer_links_total", "Links that were registered",
     [](const peer_report& one) { return as_number(one.links); }},
    {MetricType::Counter, "atbus_peer_links_lost_total", "Of these, lost",
     [](const peer_report& one) { return as_number(one.links_lost); }},
    {MetricType::Gauge, "atbus_peer_queued_messages", "Messages that the node holds for the peer",
     [](const peer_report& one) { return as_number(one.queued_messages); }},
    {MetricType::Gauge, "atbus_peer_queued_bytes",
     "Bytes of these, and those in the link that are not handled",
     [](const peer_report& one) { return as_number(one.queued_bytes); }},
    {MetricType::Gauge, "atbus_peer_queued_bytes_most", "The most of them that a report has seen",
     [](const peer_report& one) { return as_number(one.queued_bytes_most); }},
    {MetricType::Gauge, "atbus_peer_last_loss_time_seconds",
     "When a link to the peer was lost, since 1970; 0: never",
     [](const peer_report& one) { return as_seconds(one.last_loss_at); }},
    {MetricType::Gauge, "atbus_peer_smoothed_round_trip_seconds",
     "Smoothed round trip of pings; 0 where none are needed",
     [](const peer_report& one) { return std::chrono::duration<double>{one.round_trip}.count(); }},
};

metric_labels labels_of(const peer_report& peer) {
  return {{"peer", peer.id.to_string()}, {"relation", std::string{name(peer.relation)}}};
}

void add_peers(metric_families& to, const std::vector<const peer_report*>& peers) {
  for (const peer_value& value : peer_values) {
    to.begin(value.type, value.name, value.help);
    for (const peer_report* const one : peers)
      to.add(value.of(*one), labels_of(*one));
  }
  to.begin(MetricType::Histogram, "atbus_peer_round_trip_seconds",
           "Round trips of pings" + std::string{estimated_sum});
  for (const peer_report* const one : peers)
    to.add(one->round_trips, round_trip_buckets, labels_of(*one));
  // What changes is a label here alone, so that the series above last.
  to.begin(MetricType::Gauge, "atbus_peer_info", "What carries the messages to the peer");
  for (const peer_report* const one : peers) {
    metric_labels labels = labels_of(*one);
    labels.push_back({"channel", std::string{name(one->channel)}});
    labels.push_back({"encrypted", one->encrypted ? "true" : "false"});
    labels.push_back({"address", one->address});
    to.add(1, std::move(labels));
  }
}

// Clients have no ids to tell them apart. An id that is there twice is of a damaged file.
std::vector<const peer_report*> shown_peers(const node_report& report, std::size_t most) {
  std::vector<const peer_report*> shown;
  for (const peer_report& one : report.peers) {
    if (shown.size() == most)
      break;
    const bus_id before = shown.empty() ? bus_id{} : shown.back()->id;
    if (one.relation != peer_relation::client && one.id > before)
      shown.push_back(&one);
  }
  return shown;
}

}  // namespace

std::string metrics_text(const node_report_file& file, std::size_t peers, std::uint64_t at) {
  metric_families all;
  add_node(all, file, at);
  add_counters(all, file.report.stats);
  const auto shown = shown_peers(file.report, peers);
  add_peer_numbers(all, file.report, shown.size());
  add_peers(all, shown);
  return all.text();
}

}  // namespace atbus::detail
