#include "http/report/node_life.h"

#include <algorithm>
#include <chrono>

namespace atbus::detail {
namespace {

// Three times as long as a node that is polled takes between two reports.
constexpr std::uint64_t silent_after_ns = 15'000'000'000;

}  // namespace

std::string_view name(node_life life) noexcept {
  switch (life) {
    case node_life::live:
      return "live";
    case node_life::silent:
      return "silent";
    case node_life::dead:
      return "dead";
    case node_life::unreadable:
      break;
  }
  return "unreadable";
}

node_life life_of(const node_report_file& file, std::uint64_t at) noexcept {
  if (!file.problem)
    return node_life::unreadable;
  if (!file.alive)
    return node_life::dead;
  return age_of(file.report, at) > silent_after_ns ? node_life::silent : node_life::live;
}

std::uint64_t age_of(const node_report& report, std::uint64_t at) noexcept {
  return at > report.updated_at ? at - report.updated_at : 0;
}

std::uint64_t now_since_1970() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

bool is_linked(const peer_report& peer) noexcept {
  return peer.channel != peer_channel::none && !peer.away;
}

std::size_t connected_of(const node_report& report) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(report.peers, is_linked));
}

std::uint64_t queued_bytes_of(const node_report& report) noexcept {
  std::uint64_t all = 0;
  for (const peer_report& one : report.peers)
    all += one.queued_bytes;
  return all;
}

}  // namespace atbus::detail
