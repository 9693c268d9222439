#include "topology.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace atbus::detail {
namespace {

using test::dice;

// The first `length` bits are those of `prefix`.
id_range range_of(std::uint64_t prefix, unsigned length) {
  const std::uint64_t mask = ~std::uint64_t{0} << (64 - length);
  return *id_range::make(bus_id{prefix & mask}, length);
}

// One of the 2^bits equal parts of a range.
id_range part_of(const id_range& whole, unsigned bits, std::uint64_t nth) {
  return range_of(whole.first().value() | nth << (64 - whole.length() - bits),
                  whole.length() + bits);
}

bus_id draw_id(dice& draw, const id_range& from) {
  const std::uint64_t span = from.last().value() - from.first().value();
  return bus_id{from.first().value() + (span + 1 == 0 ? draw.word() : draw.below(span + 1))};
}

// Node `index` and all below it get ids within `place`.
void settle(topology& all, dice& draw, std::size_t index, const id_range& place) {
  tree_node& self = all[index];
  if (self.children.empty() && draw.below(4) != 0) {
    self.id = draw_id(draw, place);
    return;
  }
  // One part for each child, and one for itself.
  const auto bits = static_cast<unsigned>(std::bit_width(self.children.size()));
  const bool id_outside = draw.one_in(4) && place.length() < 40;  // deep trees need the bits
  const id_range range = id_outside ? part_of(place, 1, 0) : place;
  self.range = range;
  const std::uint64_t first = draw.below(std::uint64_t{1} << bits);
  const auto part = [&](std::uint64_t nth) {
    return part_of(range, bits, (first + nth) & ((std::uint64_t{1} << bits) - 1));
  };
  self.id = draw_id(draw, id_outside ? part_of(place, 1, 1) : part(self.children.size()));
  for (std::size_t i = 0; i < self.children.size(); ++i)
    settle(all, draw, self.children[i], part(i));
}

// The last one; or one near the root, where the next long arm begins.
std::size_t draw_in_chain(const topology& all, dice& draw, const std::vector<std::size_t>& relays,
                          unsigned depth_max) {
  const bool is_full = all[relays.back()].depth + 1 >= depth_max;
  return is_full || draw.one_in(12) ? relays[draw.below(std::min<std::size_t>(relays.size(), 3))]
                                    : relays.back();
}

void place_on_hosts(topology& all, dice& draw, bool shared) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    tree_node& self = all[i];
    const std::string number = std::to_string(i);
    self.addresses = {"ipv4://10." + std::to_string(i / 250 + 1) + ".0." +
                      std::to_string(i % 250 + 1) + ":7000"};
    const bool is_local = shared && i != 0 && draw.one_in(2);
    self.host = is_local ? all[self.parent].host : static_cast<unsigned>(i);
    if (shared)
      self.addresses.push_back((draw.one_in(2) ? "unix:///node" : "mem://node") + number);
    const auto& there = all[self.parent].addresses;
    self.dials = is_local ? there[draw.below(there.size())] : there[0];
  }
}

}  // namespace

topology make_topology(dice& draw, const topology_options& options) {
  topology all(options.nodes);
  std::vector<std::size_t> relays{0};
  const std::uint64_t drawn_each = draw.of<std::uint64_t>({2, 4, 16});
  const std::uint64_t relay_each = options.chains ? 1 : drawn_each;
  for (std::size_t i = 1; i < all.size(); ++i) {
    // Chains now and then.
    const std::size_t parent = options.chains ? draw_in_chain(all, draw, relays, options.depth_max)
                               : draw.one_in(4) ? relays.back()
                                                : relays[draw.below(relays.size())];
    all[i].parent = parent;
    all[i].depth = all[parent].depth + 1;
    all[parent].children.push_back(i);
    if (all[i].depth < options.depth_max && draw.one_in(relay_each))
      relays.push_back(i);
  }
  const unsigned length = 4 + static_cast<unsigned>(draw.below(8));
  settle(all, draw, 0, range_of(draw.word() | std::uint64_t{1} << 63, length));
  place_on_hosts(all, draw, options.shares_hosts);
  return all;
}

topology make_small_topology(dice& draw, bool is_tree, const std::string& name) {
  if (is_tree) {
    topology_options options;
    options.nodes = 4 + draw.below(5);
    options.depth_max = 2 + static_cast<unsigned>(draw.below(2));
    options.shares_hosts = draw.one_in(2);
    return make_topology(draw, options);
  }
  topology all(2 + draw.below(3));
  for (std::size_t i = 0; i != all.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    all[i].id = bus_id{i + 1};
    all[i].host = static_cast<unsigned>(draw.below(2));
    all[i].addresses = {"ipv4://10.0.0." + number + ":7000", "shm://" + name + "-" + number};
  }
  return all;
}

namespace {

struct climb {
  std::size_t up = 0;
  std::size_t down = 0;
};

// To the lowest node that both are below, or that one of them is, and down again.
climb climb_between(const topology& all, std::size_t from, std::size_t to) {
  climb made;
  while (from != to) {
    if (all[from].depth >= all[to].depth) {
      from = all[from].parent;
      ++made.up;
    } else {
      to = all[to].parent;
      ++made.down;
    }
  }
  return made;
}

}  // namespace

std::size_t links_between(const topology& all, std::size_t from, std::size_t to) {
  const climb way = climb_between(all, from, to);
  return way.up + way.down;
}

std::size_t fewest_links_between(const topology& all, std::size_t from, std::size_t to) {
  const climb way = climb_between(all, from, to);
  return way.up + way.down - (way.up != 0 && way.down != 0 ? 1 : 0);
}

}  // namespace atbus::detail
