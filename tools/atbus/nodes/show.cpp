// `atbus show ID`
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "atbus/format.h"
#include "atbus/nodes/json.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/remote.h"
#include "atbus/nodes/reports.h"

namespace atbus::tool {
namespace {

struct show_node_options : report_options {
  std::string id;
};

std::string words_for_loss(const peer_report& peer) {
  if (peer.last_loss_at == 0)
    return "-";
  return fmt::format("{}, {}", name(peer.last_loss), date(peer.last_loss_at));
}

std::string words_for_channel(const peer_report& peer) {
  std::string text{name(peer.channel)};
  if (peer.encrypted)
    text += ", encrypted";
  if (peer.away)
    text += ", away";
  if (peer.channel == peer_channel::none)
    text = peer.wanted ? "none, dialled" : "none";
  return text;
}

void print_times(const char* title, const time_histogram& times) {
  if (times.total() == 0)
    return;
  fmt::print("   {:<11}p50 below {}, p99 below {}, p99.9 below {}\n", title,
             duration(times.quantile(0.5)), duration(times.quantile(0.99)),
             duration(times.quantile(0.999)));
}

void print_node_peers(const node_report& report) {
  if (report.peers.empty()) {
    fmt::print("   it knows no other node\n");
    return;
  }
  fmt::print("\n");
  table rows{{{"PEER"},
              {"RELATION"},
              {"CHANNEL"},
              {"RECEIVED", table::align::right},
              {"SENT", table::align::right},
              {"QUEUED", table::align::right},
              {"MOST", table::align::right},
              {"REFUSED", table::align::right},
              {"LOST", table::align::right},
              {"LINKS", table::align::right},
              {"ROUND TRIP", table::align::right},
              {"LAST LINK LOST"},
              {"ADDRESS"}}};
  for (const peer_report& one : report.peers) {
    rows.add({one.id == bus_id{} ? "(client)" : one.id.to_string(), std::string{name(one.relation)},
              words_for_channel(one), grouped(one.received), grouped(one.sent),
              grouped(one.queued_bytes), grouped(one.queued_bytes_most), grouped(one.would_block),
              grouped(one.undelivered), grouped(one.links), duration(one.round_trip),
              words_for_loss(one), one.address});
  }
  rows.print();
  if (report.peers.size() < report.peers_in_all)
    fmt::print("   and {} more\n", grouped(report.peers_in_all - report.peers.size()));
}

void print_node_counters(const node_stats& stats) {
  std::string line;
  for (const node_counter& one : node_counters()) {
    if (one.in(stats) == 0)
      continue;
    const std::string next = fmt::format("{} {}", one.name, grouped(one.in(stats)));
    if (!line.empty() && line.size() + next.size() > 80)
      fmt::print("              {}\n", std::exchange(line, {}));
    line += (line.empty() ? "" : ", ") + next;
  }
  fmt::print("              {}\n", line.empty() ? "all 0" : line);
}

void print_node(const node_report_file& file, std::uint64_t at) {
  const node_report& report = file.report;
  fmt::print(" node {}  {}\n", report.id.to_string(), words_for_life(file, at));
  fmt::print("   process    {}, atbus {}\n", program_of(report), report.version);
  fmt::print("   started    {}, incarnation {:016x}\n", date(report.started_at),
             report.incarnation);
  fmt::print("   reported   {}\n", date(report.updated_at));
  if (report.parent != bus_id{})
    fmt::print("   parent     {}\n", report.parent.to_string());
  for (const std::string& one : report.addresses)
    fmt::print("   listens at {}\n", one);
  fmt::print("   messages   up to {} bytes\n", grouped(report.message_limit));
  print_times("handling", report.handling);
  fmt::print("   counters   since the start, without those that are 0:\n");
  print_node_counters(report.stats);
  print_node_peers(report);
}

// More than one: a dead incarnation, and the one that lives.
node_reports find_node(const show_node_options& options, bus_id wanted) {
  if (!options.at.address.empty()) {
    node_reports asked(1);
    asked[0].alive = true;
    asked[0].report = remote_nodes{options.at}.report_of(wanted);
    return asked;
  }
  node_reports found = read_reports(options);
  std::erase_if(found, [&](const node_report_file& file) {
    return !file.problem || file.report.id != wanted;
  });
  if (found.empty())
    fail("no node " + wanted.to_string() + " reports in " + options.directory +
         "; `atbus ls` lists those that do");
  return found;
}

void show_node(const show_node_options& options) {
  const bus_id wanted = bus_id_of(options.id);
  const node_reports found = find_node(options, wanted);
  if (options.json) {
    auto out = nlohmann::ordered_json::array();
    for (const node_report_file& file : found)
      out.push_back(to_json_with_peers(file, file.report.peers.size()));
    fmt::print("{}\n", out.dump(2));
    return;
  }
  const std::uint64_t at = now_since_1970();
  for (const node_report_file& file : found)
    print_node(file, at);
}

}  // namespace

void add_node_show(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("show", "One node of this host: its counters, and each node it knows");
  const auto options = std::make_shared<show_node_options>();
  options->add_to(*command);
  command->add_option("ID", options->id, "bus id, such as 0x2a or 42")->required();
  command->footer(
      "QUEUED are bytes that wait for the peer, MOST the most of them that a report has seen. "
      "REFUSED are sends for which there was no room. Times are classes of factor two.\n"
      "Examples: `atbus show 0x2a`; `atbus show 42 --json | jq '.[0].peers[].channel'`\n"
      "Exit code: 0; 1 no such node reports.");
  command->callback([options] { show_node(*options); });
}

}  // namespace atbus::tool
