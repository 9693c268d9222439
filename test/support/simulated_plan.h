// What the plans of simulated runs have in common: options that are drawn for a node, and events.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string_view>

#include "atbus/build_settings.hpp"
#include "atbus/node_options.hpp"
#include "dice.h"

namespace atbus::test {

inline constexpr std::string_view shared_token = "a secret of sixteen bytes";

// How often an option is another than usual: one time in so many.
struct option_odds {
  std::uint64_t deadline = 1;
  std::uint64_t overflow = 1;
  std::uint64_t extreme = 16;  // the least or the most that there is
};

inline constexpr std::size_t largest_size = std::numeric_limits<std::size_t>::max();

inline node_options draw_options(dice& draw, bool tokens, std::chrono::nanoseconds ping,
                                 const option_odds& odds) {
  using namespace std::chrono_literals;
  node_options made;
  if (tokens)
    made.token(shared_token);
  else
    made.allow_unauthenticated();
  made.ping_interval(ping).first_idle_timeout(draw.of({5s, 30s}));
  made.send_buffer_size(draw.of<std::size_t>({2048, 16 * 1024, 256 * 1024}));
  made.restart(
      draw.of({restart_policy::redeliver, restart_policy::redeliver, restart_policy::report}));
  if (draw.one_in(odds.deadline))
    made.message_deadline(draw.of<std::chrono::nanoseconds>({100ms, 2s, 10s}));
  // Those with which everything still comes about in the end.
  if (draw.one_in(odds.extreme))
    made.send_buffer_size(draw.of<std::size_t>({0, 1, largest_size}));
  if (draw.one_in(odds.extreme))
    made.send_buffer_number(1);
  if (draw.one_in(odds.extreme))
    made.sessions(draw.of<std::size_t>({0, 1, largest_size}));
  if (draw.one_in(odds.extreme))
    made.clients(draw.of<std::size_t>({0, 1, largest_size}));
  if (draw.one_in(odds.extreme))
    made.fault_tolerance(1);
  if (draw.one_in(odds.extreme))
    made.message_deadline(draw.of({1ns, std::chrono::nanoseconds::max()}));
  if (draw.one_in(odds.overflow)) {
    made.overflow(draw.of(
        {overflow_policy::drop_newest, overflow_policy::drop_oldest, overflow_policy::disconnect}));
  }
  return made;
}

// Of messages. The largest that is sent is larger than the queues of the simulation's links.
inline constexpr std::size_t largest_message = 70'001;

inline std::size_t draw_limit(dice& draw) {
  if (draw.one_in(2))
    return build_settings::message_limit;
  return draw.of<std::size_t>(
      {1, 23, 24, 100, 2000, 4096, largest_message - 1, node_options::message_limit_max});
}

// Many small ones, some without a byte, and now and then one as long as an end or both take it. `next`
// draws a number below the one it is given.
template <class Next>
std::size_t draw_message_size(Next next, std::size_t most, std::size_t own_limit,
                              std::size_t peers_limit) {
  switch (next(16)) {
    case 0:
      return 0;
    case 1:
      return std::min<std::size_t>((next(2) == 0 ? own_limit : peers_limit) + next(3) - 1,
                                   largest_message);
    case 2:
      return static_cast<std::size_t>(next(24));
    default:
      return static_cast<std::size_t>(24 + next(most));
  }
}

// And those with which nodes may never find each other, or never notice that a link is gone.
inline void draw_hopeless(dice& draw, node_options& made) {
  constexpr auto for_ever = std::chrono::nanoseconds::max();
  constexpr std::chrono::nanoseconds shortest{1};
  if (draw.one_in(3))
    made.first_idle_timeout(draw.one_in(2) ? shortest : for_ever);
  if (draw.one_in(3))
    made.ping_interval(draw.one_in(2) ? shortest : for_ever);
  if (draw.one_in(3))
    made.fault_tolerance(std::numeric_limits<unsigned>::max());
  if (draw.one_in(3))
    made.retry(draw.one_in(2) ? shortest : for_ever, for_ever);
  else if (draw.one_in(3))
    made.retry(shortest, shortest);
  if (draw.one_in(3))
    made.drain(draw.one_in(2) ? std::chrono::nanoseconds{0} : for_ever);
}

inline void print(std::ostream& out, const node_options& of) {
  using namespace std::chrono_literals;
  out << "limit " << of.message_limit() << ", buffer " << of.send_buffer_size() << ", overflow "
      << static_cast<int>(of.overflow()) << ", restart " << static_cast<int>(of.restart())
      << ", deadline " << of.message_deadline() / 1ms << " ms, sessions " << of.sessions()
      << ", ping " << of.ping_interval() / 1ms << " ms, tolerance " << of.fault_tolerance()
      << ", first idle " << of.first_idle_timeout() / 1s << " s, retry " << of.retry_first() / 1us
      << " us to " << of.retry_longest() / 1us << " us";
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
