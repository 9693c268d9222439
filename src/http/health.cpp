#include "http/health.h"

#include <cstddef>

#include "http/report/node_life.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t ns_per_second = 1'000'000'000;
constexpr std::size_t named_peers_max = 20;

std::string of_node(const node_report& report) {
  return "node " + report.id.to_string();
}

// "1, 2, 3 and 4 more"
std::string wanted_without_link(const node_report& report) {
  std::string names;
  std::size_t count = 0;
  for (const peer_report& one : report.peers) {
    if (!one.wanted || is_linked(one))
      continue;
    if (count++ < named_peers_max)
      names += (names.empty() ? "" : ", ") + one.id.to_string();
  }
  if (count > named_peers_max)
    names += " and " + std::to_string(count - named_peers_max) + " more";
  return names;
}

}  // namespace

health health_of(const node_report_file& file, std::uint64_t at) {
  const node_report& report = file.report;
  switch (life_of(file, at)) {
    case node_life::live:
      return {true, of_node(report) + " is polled\n"};
    case node_life::silent:
      return {false, of_node(report) + " has not reported for " +
                         std::to_string(age_of(report, at) / ns_per_second) +
                         " s: its process is stopped or stuck, or does not poll it\n"};
    case node_life::dead:
      return {false,
              of_node(report) + " is dead: its process has ended without closing the node\n"};
    case node_life::unreadable:
      break;
  }
  return {false, "the report " + file.path + " can't be read: " + file.problem.text() + '\n'};
}

health readiness_of(const node_report_file& file, bool needs_parent, std::uint64_t at) {
  const health life = health_of(file, at);
  if (!life.good)
    return life;
  const node_report& report = file.report;
  std::string text;
  if (const std::string peers = wanted_without_link(report); !peers.empty())
    text += of_node(report) + " has no link to " + peers + '\n';
  if (needs_parent && report.parent == bus_id{})
    text += of_node(report) + " has no link to a parent\n";
  if (!text.empty())
    return {false, std::move(text)};
  return {true, of_node(report) + " has all the links that it wants\n"};
}

}  // namespace atbus::detail
