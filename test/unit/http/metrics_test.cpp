// Reports as text for Prometheus. Whatever a report says, the text is valid.
#include "http/metrics.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "http/report/node_life.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

// The series of a text, "name{labels}" and its value. A series that is there twice, and a line that is
// none, fail.
std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> all;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE "))
      continue;
    const std::size_t end = line.rfind(' ');
    EXPECT_NE(end, std::string::npos) << line;
    EXPECT_TRUE(line.starts_with("atbus_")) << line;
    const bool is_new = all.emplace(line.substr(0, end), std::atof(line.c_str() + end)).second;
    EXPECT_TRUE(is_new) << line;
  }
  return all;
}

node_report_file file_of(node_report report) {
  node_report_file file;
  file.alive = true;
  file.report = std::move(report);
  return file;
}

std::string text_of(node_report report, std::size_t peers = 4096) {
  const std::uint64_t at = report.updated_at;
  return metrics_text(file_of(std::move(report)), peers, at);
}

// Prometheus' own check. Without it, which tools/script/install_dependencies.sh --all installs, there is none.
void expect_promtool_accepts(const std::string& text) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    std::cout << "promtool is not installed: it has not checked the metrics\n";
    return;
  }
  const test::scratch_directory directory;
  const std::string metrics = directory.path() + "/metrics";
  const std::string complaints = directory.path() + "/complaints";
  std::ofstream{metrics} << text;
  const std::string check = "promtool check metrics <" + metrics + " >" + complaints + " 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0) << std::ifstream{complaints}.rdbuf();
}

peer_report peer_with(std::uint64_t id) {
  peer_report peer;
  peer.id = bus_id{id};
  return peer;
}

TEST(Metrics, HaveEachCounterOfANode) {
  node_report report;
  std::uint64_t value = 1000;
  for (const node_counter& one : node_counters())
    one.set(report.stats, ++value);
  const auto series = series_of(text_of(report));
  value = 1000;
  for (const node_counter& one : node_counters()) {
    std::string name = "atbus_" + std::string{one.name} + "_total";
    if (one.field == nullptr)
      name = "atbus_strangers_total{limit=\"" + std::string{one.name.substr(10)} + "\"}";
    ASSERT_TRUE(series.contains(name)) << name;
    EXPECT_EQ(series.at(name), static_cast<double>(++value)) << name;
  }
}

TEST(Metrics, HaveEachValueOfAPeer) {
  node_report report;
  peer_report peer = peer_with(7);
  peer.relation = peer_relation::child;
  peer.channel = peer_channel::tcp;
  peer.wanted = true;
  peer.encrypted = true;
  peer.address = "ipv4://10.0.0.1:7";
  std::uint64_t value = 100;
  for (std::uint64_t* const one :
       {&peer.sent, &peer.sent_bytes, &peer.received, &peer.received_bytes, &peer.would_block,
        &peer.undelivered, &peer.links, &peer.links_lost, &peer.queued_messages, &peer.queued_bytes,
        &peer.queued_bytes_most})
    *one = ++value;
  peer.last_loss_at = 5'000'000'000;
  peer.round_trip = 250ms;
  report.peers.push_back(peer);
  const std::string text = text_of(report);
  expect_promtool_accepts(text);
  const auto series = series_of(text);
  const auto at = [&](const std::string& name) {
    const auto found = series.find(name + "{peer=\"7\",relation=\"child\"}");
    return found != series.end() ? found->second : -1;
  };
  value = 100;
  for (const char* const name :
       {"sent_total", "sent_bytes_total", "received_total", "received_bytes_total",
        "would_block_total", "undelivered_total", "links_total", "links_lost_total",
        "queued_messages", "queued_bytes", "queued_bytes_most"})
    EXPECT_EQ(at(std::string{"atbus_peer_"} + name), static_cast<double>(++value)) << name;
  EXPECT_EQ(at("atbus_peer_linked"), 1);
  EXPECT_EQ(at("atbus_peer_wanted"), 1);
  EXPECT_EQ(at("atbus_peer_last_loss_time_seconds"), 5);
  EXPECT_EQ(at("atbus_peer_smoothed_round_trip_seconds"), 0.25);
  EXPECT_TRUE(series.contains(
      "atbus_peer_info{peer=\"7\",relation=\"child\",channel=\"tcp\",encrypted=\"true\","
      "address=\"ipv4://10.0.0.1:7\"}"));
}

TEST(Metrics, SayWhetherTheNodeIsPolled) {
  node_report_file file = file_of({});
  file.report.updated_at = now_since_1970();
  const auto live = [&](std::uint64_t at) {
    return series_of(metrics_text(file, 1, at)).at("atbus_node_live");
  };
  EXPECT_EQ(live(file.report.updated_at), 1);
  EXPECT_EQ(live(file.report.updated_at + 16'000'000'000), 0);
  file.alive = false;
  EXPECT_EQ(live(file.report.updated_at), 0);
}

TEST(Metrics, QuoteAndCleanLabels) {
  node_report report;
  report.program = "a\"b\\c\nd\x1b[2J\xff\x01";
  report.version = std::string{"1\0.2", 4};
  report.peers.push_back(peer_with(3));
  report.peers.back().address = "x\"} 1\natbus_false 5\n";
  const std::string text = text_of(report);
  EXPECT_NE(text.find("program=\"a\\\"b\\\\c?d?[2J??\""), std::string::npos) << text;
  EXPECT_NE(text.find("version=\"1?.2\""), std::string::npos);
  EXPECT_EQ(text.find("\natbus_false"), std::string::npos);
  EXPECT_TRUE(
      std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

// Each bucket has all times up to its end.
TEST(Metrics, HaveBucketsThatRise) {
  node_report report;
  report.handling.add(3ns, 2);
  report.handling.add(1us, 5);
  report.handling.add(std::chrono::hours{1}, 1);
  const auto series = series_of(text_of(report));
  EXPECT_EQ(series.at("atbus_handling_seconds_bucket{le=\"2e-09\"}"), 0);
  EXPECT_EQ(series.at("atbus_handling_seconds_bucket{le=\"4e-09\"}"), 2);
  EXPECT_EQ(series.at("atbus_handling_seconds_bucket{le=\"+Inf\"}"), 8);
  EXPECT_EQ(series.at("atbus_handling_seconds_count"), 8);
  EXPECT_GT(series.at("atbus_handling_seconds_sum"), 0);
}

TEST(Metrics, SurviveHostileNumbers) {
  node_report report;
  report.id = bus_id{largest};
  report.incarnation = report.started_at = report.updated_at = largest;
  report.peers_in_all = report.message_limit = largest;
  for (const node_counter& one : node_counters())
    one.set(report.stats, largest);
  report.handling.counts.fill(largest / 2 + 1);  // two of them are 0 in 64 bits
  for (std::uint64_t id = largest - 1; id != 0; id += largest / 2 + 1) {
    report.peers.insert(report.peers.begin(), peer_with(id));
    peer_report& peer = report.peers.front();
    peer.sent = peer.queued_bytes = peer.last_loss_at = largest;
    peer.round_trip = std::chrono::nanoseconds::max();
    peer.round_trips.counts.fill(largest);
    if (id < largest / 2)
      break;
  }
  const std::string text = text_of(report);
  expect_promtool_accepts(text);
  const auto series = series_of(text);
  EXPECT_DOUBLE_EQ(series.at("atbus_accepted_total"), static_cast<double>(largest));
  double before = 0;
  for (const char* const end : {"1e-09", "2e-09", "0.001048576", "+Inf"}) {
    const double count =
        series.at("atbus_handling_seconds_bucket{le=\"" + std::string{end} + "\"}");
    EXPECT_GE(count, before) << end;
    before = count;
  }
  EXPECT_DOUBLE_EQ(before, static_cast<double>(largest));
}

TEST(Metrics, HaveEachPeerOnceAndNoClient) {
  node_report report;
  for (const std::uint64_t id : {0U, 0U, 5U, 5U, 4U, 6U}) {
    report.peers.push_back(peer_with(id));
    if (id == 0)
      report.peers.back().relation = peer_relation::client;
  }
  const auto series = series_of(text_of(report));  // fails on a series that is there twice
  EXPECT_EQ(series.at("atbus_peers_shown"), 2);
  EXPECT_TRUE(series.contains("atbus_peer_linked{peer=\"5\",relation=\"peer\"}"));
  EXPECT_TRUE(series.contains("atbus_peer_linked{peer=\"6\",relation=\"peer\"}"));
  EXPECT_EQ(series.at("atbus_peers{relation=\"client\",linked=\"false\"}"), 2);
  EXPECT_EQ(series.at("atbus_peers{relation=\"peer\",linked=\"false\"}"), 4);
}

TEST(Metrics, OfThousandsOfPeersAreBounded) {
  node_report report;
  report.peers_in_all = 10'000;
  for (std::uint64_t id = 1; id <= 4096; ++id)
    report.peers.push_back(peer_with(id));
  const auto series = series_of(text_of(report, 100));
  EXPECT_EQ(series.at("atbus_peers_shown"), 100);
  EXPECT_EQ(series.at("atbus_peers_known"), 10'000);
  EXPECT_TRUE(series.contains("atbus_peer_linked{peer=\"100\",relation=\"peer\"}"));
  EXPECT_FALSE(series.contains("atbus_peer_linked{peer=\"101\",relation=\"peer\"}"));
  EXPECT_LT(series.size(), 100U * 40U);
  EXPECT_EQ(series_of(text_of(report)).at("atbus_peers_shown"), 4096);
}

}  // namespace
}  // namespace atbus::detail
