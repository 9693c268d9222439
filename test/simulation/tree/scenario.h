// What happens in one simulated run of a tree of nodes: the tree, what its nodes send, what goes wrong
// and when. All of it follows from a seed, and each event can be left out.
#pragma once

#include <iosfwd>

#include "atbus/node_options.hpp"
#include "simulated_plan.h"
#include "simulated_runs.h"
#include "topology.h"

namespace atbus::detail {

enum class tree_happening : std::uint8_t {
  send,        // `count` messages of up to `size` bytes from `who` to `whom`
  cut,         // a link, seen by both, one or none of its ends
  slow,        // messages travel for long
  refuse,      // connections are refused,
  swallow,     // or get no answer
  narrow,      // queues and kernel hold little, of what is opened from then on
  stop,        // a process
  kill,        // a process; another one follows
  lose,        // the same, and nobody sees its end
  part,        // what is below `who` and itself from its parent
  kill_many,   // `who` and `count` others, one soon after the other
  step_clock,  // of a process
  broadcast,   // `count` messages of up to `size` bytes from `who`
  disconnect,  // `who` from a child of its or from `whom`, in the midst of what it sends there
  call,     // an unproven peer dials `who` in the name of a neighbour or of `whom`, `count` times
  connect,  // `who` names `whom`, or a neighbour of its own, with connect()
  kinds,
};
[[nodiscard]] const char* name(tree_happening what) noexcept;

using tree_event = test::planned_event<tree_happening>;

struct tree_scenario {
  std::uint64_t seed = 0;
  topology nodes;
  std::vector<node_options> options;  // of each node, without parent and range
  bool crowded = false;               // all is slow and full until the faults end
  bool calm = false;                  // nothing but messages, limits and unproven peers: links stay
  bool keeps_slots = false;           // some messages are in slots that are committed later
  std::chrono::nanoseconds faults_end{0};
  std::vector<tree_event> events;  // in order
};

[[nodiscard]] tree_scenario make_tree_scenario(std::uint64_t seed);
[[nodiscard]] std::string to_text(const tree_scenario& all);

// `trace`, if given, is told what happens.
test::run_result run(const tree_scenario& all, std::ostream* trace);

}  // namespace atbus::detail
