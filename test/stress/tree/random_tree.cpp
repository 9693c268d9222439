#include "random_tree.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace atbus::test {
namespace {

using namespace std::chrono_literals;

// Each level has a digit of the id: 0 are the node itself, 1 to 15 its children.
constexpr std::uint32_t most_children = 15;
constexpr std::uint32_t digit_bits = 4;
constexpr std::uint32_t most_levels = 4;  // below the root
constexpr std::uint32_t most_partners = 6;

struct place {
  std::uint64_t id = 0;
  std::uint32_t level = 0;
  std::uint32_t children = 0;

  [[nodiscard]] std::uint32_t free_bits() const { return digit_bits * (most_levels - level); }
  [[nodiscard]] std::string range() const {
    return std::to_string(id) + "/" + std::to_string(64 - free_bits());
  }
};

// Ids of this process: rounds of other processes share /dev/shm with ours.
std::vector<place> places_of(const tree_shape& tree) {
  std::vector<place> places(tree.size());
  places[0].id = static_cast<std::uint64_t>(getpid()) << places[0].free_bits();
  for (std::size_t role = 1; role != tree.size(); ++role) {
    place& above = places[tree[role]];
    place& own = places[role];
    own.level = above.level + 1;
    own.id = above.id | std::uint64_t{++above.children} << own.free_bits();
  }
  return places;
}

node_options options_of_all(std::mt19937_64& random) {
  node_options options;
  options.token("a secret of the trees").retry(5ms, 100ms).first_idle_timeout(2s);
  if (random() % 2 == 0)
    options.ping_interval(50ms).fault_tolerance(3);
  if (random() % 2 == 0)
    options.send_buffer_size(256 * 1024);
  return options;
}

}  // namespace

tree_shape random_tree(std::uint32_t nodes, std::mt19937_64& random) {
  tree_shape tree{0};
  std::vector<place> places(nodes);
  while (tree.size() != nodes) {
    const auto above = static_cast<std::uint32_t>(random() % tree.size());
    if (places[above].level == most_levels || places[above].children == most_children)
      continue;
    ++places[above].children;
    places[tree.size()].level = places[above].level + 1;
    tree.push_back(above);
  }
  return tree;
}

crew_plan plan_of(const tree_shape& tree, std::mt19937_64& random, const std::string& directory) {
  constexpr std::array ways{way::shm,  way::lanes, way::unix_socket,
                            way::ipv4, way::ipv6,  way::tcp_then_shm};
  const std::vector<place> places = places_of(tree);
  const auto nodes = static_cast<std::uint32_t>(tree.size());
  const node_options options = options_of_all(random);
  crew_plan plan;
  for (std::uint32_t role = 0; role != nodes; ++role) {
    const bus_id id{places[role].id};
    entrance& own = plan.entrances.emplace_back(ways[random() % ways.size()], id, directory);
    plan.rules.ids.push_back(id);
    member_plan& member = plan.members.emplace_back();
    member.id = id;
    member.listens = own.listens;
    member.options = options;
    if (places[role].children != 0)
      member.options.children(places[role].range());
    if (role != 0)
      member.options.parent(plan.entrances[tree[role]].dials);
    while (member.partners.size() != std::min(most_partners, nodes - 1)) {
      const auto other = static_cast<std::uint32_t>(random() % nodes);
      if (other != role && std::ranges::count(member.partners, other) == 0)
        member.partners.push_back(other);
    }
    member.requires_some = true;
    member.longest_turn_us = 500 * nodes;
  }
  // Nobody was asked to be kept for those that are away: only what is required waits for its node.
  plan.rules.reasons.assign(nodes, {errc::no_route, errc::timed_out, errc::peer_closed});
  plan.rules.required_reasons = {errc::peer_closed};  // left in shared memory, as in two_nodes.cpp
  plan.rules.leaves_gaps = true;
  return plan;
}

}  // namespace atbus::test
