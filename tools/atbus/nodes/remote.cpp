#include "atbus/nodes/remote.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "atbus/bytes.hpp"
#include "atbus/format.h"
#include "node/report/report_format.h"

namespace atbus::tool {
namespace {

// Nodes that are asked for their reports: more make no table for people.
constexpr std::size_t nodes_max = 1000;
// That are asked for of one node.
constexpr std::uint64_t peers_max = 65536;

}  // namespace

bus_id remote_nodes::first() {
  if (first_ != bus_id{})
    return first_;
  const std::vector<std::string> values = client_.ask({"atbus.ping"});
  const auto id = values.empty() ? result<bus_id>{errc::malformed} : bus_id::parse(values.front());
  if (!id)
    throw std::runtime_error("the node answers atbus.ping with something else than its id");
  return first_ = *id;
}

std::vector<std::string> remote_nodes::ask(bus_id whom, std::vector<std::string> words) {
  std::vector<std::string> values = ask_for_bytes(whom, std::move(words));
  for (std::string& one : values)
    one = printable(std::move(one));
  return values;
}

std::vector<std::string> remote_nodes::ask_for_bytes(bus_id whom, std::vector<std::string> words) {
  if (whom != first())
    words.insert(words.begin(), {"atbus.ask", whom.to_string()});
  return client_.ask(words);
}

node_report remote_nodes::page_of(bus_id whom, std::size_t first_peer) {
  const auto values = ask_for_bytes(whom, {"atbus.report", std::to_string(first_peer)});
  auto report = values.empty() ? result<node_report>{errc::malformed}
                               : detail::decode_report(as_bytes(values.front()));
  if (!report)
    throw std::runtime_error("the report of " + whom.to_string() + ": " + report.error().text());
  return std::move(*report);
}

node_report remote_nodes::report_of(bus_id whom) {
  node_report all = page_of(whom, 0);
  // Peers come and go between the pages; what a node says of how many there are may be wrong.
  while (all.peers.size() < std::min(all.peers_in_all, peers_max)) {
    const node_report more = page_of(whom, all.peers.size());
    if (more.peers.empty())
      break;
    all.peers.insert(all.peers.end(), more.peers.begin(), more.peers.end());
  }
  return all;
}

node_reports remote_nodes::all() {
  node_reports found;
  std::vector<bus_id> next = {first()};
  std::set<bus_id> known = {first()};
  for (std::size_t i = 0; i != next.size() && i != nodes_max; ++i) {
    node_report_file one;
    one.alive = true;
    one.path = "node " + next[i].to_string();
    one.report.id = next[i];
    try {
      one.report = report_of(next[i]);
    } catch (const std::runtime_error& problem) {
      if (i == 0)
        throw;
      one.alive = false;
      one.problem = {errc::not_connected, problem.what()};
    }
    for (const peer_report& peer : one.report.peers) {
      const bool is_there = peer.channel != peer_channel::none && !peer.away && peer.id != bus_id{};
      if (is_there && known.insert(peer.id).second)
        next.push_back(peer.id);
    }
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, {}, [](const node_report_file& one) { return one.report.id; });
  return found;
}

}  // namespace atbus::tool
