// What the plans of simulated runs have in common: options that are drawn for a node, and events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include "atbus/node/node_options.hpp"
#include "dice.h"

namespace atbus::test {

// How often an option is another than usual: one time in so many.
struct option_odds {
  std::uint64_t deadline = 1;
  std::uint64_t overflow = 1;
};

inline node_options draw_options(dice& draw, bool tokens, std::chrono::nanoseconds ping,
                                 const option_odds& odds) {
  using namespace std::chrono_literals;
  node_options made;
  if (tokens)
    made.token("a secret of sixteen bytes");
  else
    made.allow_unauthenticated();
  made.ping_interval(ping).first_idle_timeout(draw.of({5s, 30s}));
  made.send_buffer_size(draw.of<std::size_t>({2048, 16 * 1024, 256 * 1024}));
  made.restart(
      draw.of({restart_policy::redeliver, restart_policy::redeliver, restart_policy::report}));
  if (draw.one_in(odds.deadline))
    made.message_deadline(draw.of<std::chrono::nanoseconds>({100ms, 2s, 10s}));
  if (draw.one_in(odds.overflow)) {
    made.overflow(draw.of(
        {overflow_policy::drop_newest, overflow_policy::drop_oldest, overflow_policy::disconnect}));
  }
  return made;
}

inline void print(std::ostream& out, const node_options& of) {
  using namespace std::chrono_literals;
  out << "buffer " << of.send_buffer_size() << ", overflow " << static_cast<int>(of.overflow())
      << ", restart " << static_cast<int>(of.restart()) << ", deadline "
      << of.message_deadline() / 1ms << " ms, sessions " << of.sessions() << ", ping "
      << of.ping_interval() / 1ms << " ms, first idle " << of.first_idle_timeout() / 1s << " s";
}

// `What` names what can happen.
template <class What>
struct planned_event {
  std::chrono::nanoseconds when{0};
  What what = What::send;
  std::size_t who = 0;  // nodes, counted from 0
  std::size_t whom = 0;
  std::uint64_t count = 0;
  std::uint64_t size = 0;
  std::chrono::nanoseconds time{0};
};

// `first` is what the plan calls node 0.
template <class What>
void print(std::ostream& out, const planned_event<What>& one, std::size_t first) {
  using namespace std::chrono_literals;
  out << "  " << one.when / 1us << " us: " << name(one.what) << ' ' << one.who + first << " -> "
      << one.whom + first << ", count " << one.count << ", size " << one.size << ", time "
      << one.time / 1us << " us\n";
}

}  // namespace atbus::test
