#include "simulation/node/scenario.h"

#include <sstream>

#include "dice.h"

namespace atbus::detail {

using test::dice;

namespace {

constexpr std::array<const char*, static_cast<std::size_t>(happening::kinds)> names{
    "send", "cut",  "slow",    "refuse",     "swallow",  "narrow",  "stop",
    "kill", "lose", "outlive", "disconnect", "listen",   "connect", "broadcast",
    "part", "call", "answer",  "repeat",     "overtake", "stumble", "starve"};

constexpr std::array<const char*, 4> way_names{"tcp", "unix", "segment", "memory"};

happening draw_fault(dice& draw) {
  // Those that lead into the most corners most often.
  if (draw.one_in(3))
    return happening::cut;
  return static_cast<happening>(1 + draw.below(static_cast<std::uint64_t>(happening::answer)));
}

happening draw_visit(dice& draw) {
  return draw.one_in(2) ? happening::call : happening::answer;
}

}  // namespace

const char* name(happening what) noexcept {
  return names[static_cast<std::size_t>(what)];
}

const char* name(way what) noexcept {
  return way_names[static_cast<std::size_t>(what)];
}

scenario make_scenario(std::uint64_t seed) {
  dice draw{seed};
  scenario made;
  made.seed = seed;
  made.nodes = draw.one_in(5) ? 3 : 2;
  made.one_host = draw.one_in(3);
  if (made.one_host) {
    made.ways = draw.of<std::vector<way>>({{way::tcp},
                                           {way::tcp, way::unix_socket},
                                           {way::tcp, way::segment},
                                           {way::unix_socket, way::segment},
                                           {way::segment}});
  }
  made.hopeless = draw.one_in(32);
  made.calm = !made.hopeless && draw.one_in(8);
  made.crowded = !made.calm && draw.one_in(4);
  const bool tokens = draw.one_in(4);
  made.tokens = tokens;
  made.dials.assign(made.nodes, std::vector<bool>(made.nodes));
  for (std::size_t i = 0; i < made.nodes; ++i) {
    const test::option_odds odds{.deadline = made.crowded ? 2U : 4U, .overflow = 3};
    made.options.push_back(test::draw_options(draw, tokens, draw.of({1s, 8s}), odds));
    node_options& of = made.options.back();
    if (draw.one_in(8))
      of.sessions(draw.below(2));
    if (made.hopeless)
      test::draw_hopeless(draw, of);
    if (made.calm && of.overflow() == overflow_policy::disconnect)
      of.overflow(overflow_policy::would_block);
    made.message_limits.emplace_back();
    do
      made.message_limits.back().push_back(test::draw_limit(draw));
    while (draw.one_in(3));
    for (std::size_t j = 0; j < i; ++j) {
      const std::uint64_t who = draw.below(3);
      made.dials[i][j] = who != 0;
      made.dials[j][i] = who != 1;
    }
  }
  made.faults_end = made.hopeless ? 100ms + draw.time(1s) : 10s + draw.time(50s);
  const auto add = [&](happening what, std::chrono::nanoseconds longest) {
    scenario_event one;
    one.when = draw.time(made.faults_end);
    one.what = what;
    one.who = draw.below(made.nodes);
    one.whom = (one.who + 1 + draw.below(made.nodes - 1)) % made.nodes;
    one.count = 1 + draw.below(draw.one_in(8) ? 60 : 12);
    one.size = draw.of<std::uint64_t>({30, 200, 2000});
    one.time = draw.time(draw.one_in(3) ? longest : longest / 20);
    made.events.push_back(one);
  };
  const std::uint64_t bursts =
      made.hopeless ? 10 : made.nodes * static_cast<std::uint64_t>(made.faults_end / 1s) / 4;
  for (std::uint64_t i = 0; i < bursts; ++i)
    add(happening::send, 0s);
  for (std::uint64_t i = draw.below(8); i != 0; --i)
    add(happening::broadcast, 0s);
  const std::uint64_t faults = 1 + draw.below(made.crowded || draw.one_in(4) ? 30 : 8);
  for (std::uint64_t i = 0; i < faults; ++i) {
    if (made.calm)
      add(draw_visit(draw), 10s);
    else
      add(made.crowded && !draw.one_in(4) ? happening::cut : draw_fault(draw), 10s);
  }
  // Drawn apart: the rest of a seed's scenario is what it was without this.
  dice apart{~seed};
  made.nameless = made.ways.size() > 1 && apart.one_in(2);
  for (std::uint64_t i = made.calm || made.hopeless ? 0 : apart.below(3); i != 0; --i) {
    scenario_event one;
    one.when = apart.time(made.faults_end);
    one.what = happening::repeat;
    one.who = apart.below(made.nodes);
    one.count = apart.word();
    one.time = apart.time(20s);
    made.events.push_back(one);
  }
  for (std::uint64_t i = made.calm || made.hopeless ? 0 : apart.below(4); i != 0; --i) {
    scenario_event one;
    one.when = apart.time(made.faults_end);
    one.what = apart.one_in(2) ? happening::overtake : happening::stumble;
    one.who = apart.below(made.nodes);
    one.whom = (one.who + 1 + apart.below(made.nodes - 1)) % made.nodes;
    one.count = 1 + apart.below(4);
    one.size = apart.of<std::uint64_t>({30, 200, 2000});
    one.time = apart.time(apart.one_in(2) ? 20ms : 1s);
    made.events.push_back(one);
  }
  made.keeps_slots = apart.one_in(4);
  std::stable_sort(made.events.begin(), made.events.end(),
                   [](const auto& left, const auto& right) { return left.when < right.when; });
  return made;
}

scenario make_starved_scenario(std::uint64_t seed) {
  scenario made = make_scenario(seed);
  dice draw{seed + 1'000'000'007};
  made.starved = true;
  made.calm = false;  // a link may end for want of memory
  made.asks = draw.one_in(2);
  for (std::uint64_t i = 1 + draw.below(draw.one_in(4) ? 60 : 12); i != 0; --i) {
    scenario_event one;
    one.when = draw.time(made.faults_end);
    if (!draw.one_in(3)) {  // where much is to be done
      const auto& other = made.events[draw.below(made.events.size())];
      one.when = std::min(other.when + draw.time(1s), made.faults_end);
    }
    one.what = happening::starve;
    one.who = draw.below(made.nodes);
    one.count = 1 + draw.below(draw.one_in(3) ? 100 : 8);
    one.size = 1 + draw.below(3);
    made.events.push_back(one);
  }
  std::stable_sort(made.events.begin(), made.events.end(),
                   [](const auto& left, const auto& right) { return left.when < right.when; });
  return made;
}

std::string to_text(const scenario& all) {
  std::ostringstream text;
  text << "seed " << all.seed << ", " << all.nodes << " nodes"
       << (all.one_host ? " on one host" : "") << ", at";
  for (const way one : all.ways)
    text << ' ' << name(one);
  text << (all.crowded ? ", crowded" : "") << (all.nameless ? ", nameless" : "")
       << (all.starved ? ", starved" : "") << (all.keeps_slots ? ", keeps slots" : "")
       << ", faults end at " << all.faults_end / 1ms << " ms\n";
  for (std::size_t i = 0; i < all.nodes; ++i) {
    text << "  node " << i + 1 << ": ";
    test::print(text, all.options[i]);
    text << "; limits";
    for (const std::size_t one : all.message_limits[i])
      text << ' ' << one;
    text << "; dials";
    for (std::size_t j = 0; j < all.nodes; ++j) {
      if (all.dials[i][j])
        text << ' ' << j + 1;
    }
    text << '\n';
  }
  for (const scenario_event& one : all.events)
    test::print(text, one, 1);
  return text.str();
}

}  // namespace atbus::detail
