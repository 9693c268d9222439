#include "simulation/tree/scenario.h"

#include <cmath>
#include <sstream>

#include "dice.h"

namespace atbus::detail {

using test::dice;

namespace {

constexpr std::array<const char*, static_cast<std::size_t>(tree_happening::kinds)> names{
    "send", "cut",  "slow",      "refuse",     "swallow",   "narrow",     "stop", "kill",
    "lose", "part", "kill_many", "step_clock", "broadcast", "disconnect", "call", "connect"};

// Any number.
constexpr std::uint64_t deep_trees = 0x6465'6570;

// 2 to `most`, the median at 10 for 1,000: the square of what would make each order of magnitude as
// likely as another.
std::size_t draw_size(dice& draw, std::size_t most) {
  const double even = static_cast<double>(draw.below(1'000'001)) / 1e6;
  const double drawn = 2 * std::pow(static_cast<double>(most) / 2, even * even);
  return std::clamp<std::size_t>(static_cast<std::size_t>(drawn), 2, most);
}

tree_happening draw_fault(dice& draw) {
  if (draw.one_in(3))
    return tree_happening::cut;
  return static_cast<tree_happening>(
      1 + draw.below(static_cast<std::uint64_t>(tree_happening::connect) - 1));
}

// Those near the root have more below them.
std::size_t draw_relay(dice& draw, const topology& nodes) {
  std::size_t drawn = draw.below(nodes.size());
  while (nodes[drawn].children.empty() && drawn != 0)
    drawn = nodes[drawn].parent;
  return drawn;
}

}  // namespace

const char* name(tree_happening what) noexcept {
  return names[static_cast<std::size_t>(what)];
}

tree_scenario make_tree_scenario(std::uint64_t seed) {
  dice draw{seed};
  tree_scenario made;
  made.seed = seed;
  const std::uint64_t most = test::from_environment("ATBUS_SIMULATION_NODES", 1000);
  topology_options options;
  options.nodes = draw_size(draw, most);
  options.depth_max = 1 + static_cast<unsigned>(draw.below(4));
  options.shares_hosts = draw.one_in(3);
  // Drawn apart: the scenarios of other seeds are what they were without deep trees. Some of their nodes
  // are farther from each other than a message may go.
  if (dice shape{seed ^ deep_trees}; shape.one_in(4)) {
    options.nodes = std::min<std::size_t>(26 + shape.below(15), std::max<std::size_t>(most, 2));
    options.depth_max = 9 + static_cast<unsigned>(shape.below(12));
    options.chains = true;
  }
  made.nodes = make_topology(draw, options);
  made.calm = draw.one_in(8);
  made.crowded = !made.calm && draw.one_in(4);
  const bool tokens = draw.one_in(8);
  for (std::size_t i = 0; i < made.nodes.size(); ++i) {
    made.options.push_back(test::draw_options(draw, tokens, draw.of({1s, 8s, 8s, 8s}),
                                              {.deadline = made.crowded ? 2U : 8U, .overflow = 8}));
    node_options& of = made.options.back();
    if (draw.one_in(4))
      of.message_limit(test::draw_limit(draw));
    if (made.calm && of.overflow() == overflow_policy::disconnect)
      of.overflow(overflow_policy::would_block);
  }
  made.faults_end = 10s + draw.time(50s);
  // Most of what is sent goes between the same pairs.
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  const auto draw_pair = [&] {
    const std::size_t who = draw.below(made.nodes.size());
    return std::pair{who, (who + 1 + draw.below(made.nodes.size() - 1)) % made.nodes.size()};
  };
  for (std::size_t i = 0; i < made.nodes.size(); ++i)
    pairs.push_back(draw_pair());
  const auto add = [&](tree_happening what, std::chrono::nanoseconds longest) {
    tree_event one;
    one.when = draw.time(made.faults_end);
    one.what = what;
    std::tie(one.who, one.whom) = draw.one_in(4) ? draw_pair() : pairs[draw.below(pairs.size())];
    if (what != tree_happening::send && draw.one_in(2))
      one.who = draw_relay(draw, made.nodes);
    one.count = 1 + draw.below(draw.one_in(8) ? 60 : 12);
    one.size = draw.of<std::uint64_t>({30, 200, 2000});
    one.time = draw.time(draw.one_in(3) ? longest : longest / 20);
    made.events.push_back(one);
  };
  const std::uint64_t bursts =
      made.nodes.size() * static_cast<std::uint64_t>(made.faults_end / 1s) / 8 + 8;
  for (std::uint64_t i = 0; i < bursts; ++i)
    add(tree_happening::send, 0s);
  for (std::uint64_t i = draw.below(16); i != 0; --i)
    add(tree_happening::broadcast, 0s);
  const std::uint64_t faults =
      1 + draw.below((made.crowded || draw.one_in(4) ? 30 : 8) + made.nodes.size() / 10);
  for (std::uint64_t i = 0; i < faults; ++i) {
    if (made.calm)
      add(tree_happening::call, 10s);
    else
      add(made.crowded && !draw.one_in(4) ? tree_happening::cut : draw_fault(draw), 10s);
  }
  // Drawn apart: the rest of a seed's scenario is what it was without these.
  dice apart{~seed};
  const std::uint64_t wanted =
      made.calm || apart.one_in(2) ? 0 : apart.below(4 + made.nodes.size() / 2);
  const bool has_names = options.shares_hosts && apart.one_in(2);
  for (std::size_t i = 0; has_names && i != made.nodes.size(); ++i) {
    if (apart.one_in(2))
      made.nodes[i].addresses.push_back("shm://node" + std::to_string(i));
  }
  for (std::uint64_t i = 0; i != wanted; ++i) {
    tree_event one;
    one.when = apart.time(made.faults_end);
    one.what = tree_happening::connect;
    std::tie(one.who, one.whom) = pairs[apart.below(pairs.size())];
    const tree_node& self = made.nodes[one.who];
    if (!self.children.empty() && apart.one_in(3))
      one.whom = self.children[apart.below(self.children.size())];
    else if (one.who != 0 && apart.one_in(3))
      one.whom = apart.one_in(2) ? self.parent : made.nodes[self.parent].children.front();
    made.events.push_back(one);
  }
  made.keeps_slots = apart.one_in(4);
  std::ranges::stable_sort(made.events, {}, &tree_event::when);
  return made;
}

std::string to_text(const tree_scenario& all) {
  std::ostringstream text;
  text << "seed " << all.seed << ", " << all.nodes.size() << " nodes"
       << (all.crowded ? ", crowded" : "") << (all.calm ? ", calm" : "")
       << (all.keeps_slots ? ", keeps slots" : "") << ", faults end at " << all.faults_end / 1ms
       << " ms\n";
  for (std::size_t i = 0; i < all.nodes.size(); ++i) {
    const tree_node& node = all.nodes[i];
    text << "  node " << i << ": " << node.id.to_hex() << ", range "
         << (node.range ? node.range->to_string() : "none") << ", child of " << node.parent
         << " at " << node.dials << ", host " << node.host << ", ";
    test::print(text, all.options[i]);
    text << '\n';
  }
  for (const tree_event& one : all.events)
    test::print(text, one, 0);
  return text.str();
}

}  // namespace atbus::detail
