#include "two_nodes.h"

#include <unistd.h>

#include <array>
#include <chrono>

namespace atbus::test {
namespace {

using namespace std::chrono_literals;

// Ids of this process: rounds of other processes share /dev/shm with ours.
bus_id make_id(std::uint32_t role) {
  return bus_id{static_cast<std::uint64_t>(getpid()) * 2 + role};
}

}  // namespace

crew_plan two_nodes(way through, std::mt19937_64& random, const std::string& directory) {
  const auto pick = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  const std::array<bool, 2> wanted{true, pick(2) == 0};  // whether this node says connect
  std::set<errc> reasons;
  bool leaves_gaps = false;
  node_options options;
  options.retry(2ms, 20ms);
  if (through == way::ipv4 || through == way::ipv6 || through == way::tcp_then_shm)
    options.token("a secret of the rounds");
  if (pick(2) == 0)
    options.ping_interval(20ms).fault_tolerance(2);
  if (pick(2) == 0)
    options.send_buffer_size(256 * 1024);
  const auto reports = [&](errc reason) {
    reasons.insert(reason);
    leaves_gaps = true;
  };
  if (pick(4) == 0) {
    options.restart(restart_policy::report);
    reports(errc::peer_closed);
  }
  // What a later incarnation may have inherited from a link that was broken off is not sent to it again.
  if (through == way::shm || through == way::tcp_then_shm)
    reports(errc::peer_closed);
  if (pick(4) == 0) {
    options.message_deadline(5ms);
    reports(errc::timed_out);
  }
  if (const auto policy = static_cast<overflow_policy>(pick(8));
      policy <= overflow_policy::disconnect) {
    options.overflow(policy);
    if (policy != overflow_policy::would_block)
      reports(errc::would_block);
  }
  crew_plan plan;
  for (std::uint32_t role = 0; role != 2; ++role) {
    const bus_id id = make_id(role);
    plan.entrances.emplace_back(through, id, directory);
    plan.rules.ids.push_back(id);
    plan.rules.reasons.push_back(reasons);
    if (!wanted[role])
      plan.rules.reasons[role].insert(errc::peer_closed);
  }
  plan.rules.leaves_gaps = leaves_gaps;
  plan.rules.required_reasons = reasons;
  for (std::uint32_t role = 0; role != 2; ++role) {
    const std::uint32_t other = 1 - role;
    member_plan& member = plan.members.emplace_back();
    member.id = plan.rules.ids[role];
    member.options = options;
    member.partners = {other};
    if (wanted[other])
      member.listens = plan.entrances[role].listens;
    if (wanted[role])
      member.connects = {{plan.rules.ids[other], plan.entrances[other].dials}};
  }
  return plan;
}

}  // namespace atbus::test
