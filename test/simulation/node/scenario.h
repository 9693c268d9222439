// What happens in one simulated run: how the nodes are set up, what they send, what goes wrong and
// when. All of it follows from a seed, and each event can be left out, so that a run that fails can be
// made short.
#pragma once

#include <iosfwd>

#include "atbus/node_options.hpp"
#include "simulated_plan.h"
#include "simulated_runs.h"

namespace atbus::detail {

enum class happening : std::uint8_t {
  send,        // `count` messages of up to `size` bytes from `who` to `whom`
  cut,         // a link, seen by both, one or none of its ends
  slow,        // messages travel for long
  refuse,      // connections are refused,
  swallow,     // or get no answer
  narrow,      // queues and kernel hold little, of what is opened from then on
  stop,        // a process
  kill,        // a process; another one follows
  lose,        // the same, and nobody sees its end
  outlive,     // another process with the same id begins, and the old one goes on for a while
  disconnect,  // `who` from `whom`, and connects again after `time`
  listen,      // at one more address, a better one
  connect,     // to one more address of `whom`
  broadcast,   // `count` messages of up to `size` bytes from `who`
  part,        // `who` sends `count` to `whom` and disconnects in the midst of them
  call,        // an unproven peer dials `who` in the name of `whom`, `count` times
  answer,      // an unproven peer is where `who` dials `whom`
  repeat,      // a node that dials `who` and repeats what it has sent
  overtake,  // what `who` says first on a link to `whom` comes late, when another link has taken its place
  stumble,  // a process is killed, and `count` successors of its soon after they begin
  starve,   // in `count` polls `who` misses up to `size` allocations
  kinds,
};
[[nodiscard]] const char* name(happening what) noexcept;

// An address of a node, worst first. Those of a host reach its processes only.
enum class way : std::uint8_t { tcp, unix_socket, segment, memory };
[[nodiscard]] const char* name(way what) noexcept;

using scenario_event = test::planned_event<happening>;

struct scenario {
  std::uint64_t seed = 0;
  std::size_t nodes = 2;
  bool one_host = false;
  bool calm = false;                  // nothing but messages, limits and unproven peers: links stay
  bool hopeless = false;              // with such options it may be that no message arrives
  std::vector<node_options> options;  // of each node
  // Of its lives, in turn.
  std::vector<std::vector<std::size_t>> message_limits;
  std::vector<std::vector<bool>> dials;  // who dials whom at its start
  std::vector<way> ways{way::tcp};       // where they listen at their start, and are dialled
  bool tokens = false;                   // all have one
  bool crowded = false;                  // all is slow and full until the faults end
  // A process that is started again does not always open its name in shared memory.
  bool nameless = false;
  bool starved = false;      // now and then they miss allocations
  bool asks = true;          // commands are sent too
  bool keeps_slots = false;  // some messages are in slots that are committed later
  std::chrono::nanoseconds faults_end{0};
  std::vector<scenario_event> events;  // in order
};

[[nodiscard]] scenario make_scenario(std::uint64_t seed);
// The same, and nodes miss allocations.
[[nodiscard]] scenario make_starved_scenario(std::uint64_t seed);
[[nodiscard]] std::string to_text(const scenario& all);

// `trace`, if given, is told what happens.
test::run_result run(const scenario& all, std::ostream* trace);

}  // namespace atbus::detail
