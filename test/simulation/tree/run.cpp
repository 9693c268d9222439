// Runs a scenario: starts the tree, lets things happen, and checks.
#include <ostream>

#include "simulation/tree/scenario.h"
#include "simulation/tree/tree_world.h"

namespace atbus::detail {

namespace {

constexpr std::chrono::nanoseconds longest_recovery = 120s;
constexpr std::size_t link_queue = std::size_t{64} * 1024;

class tree_run {
 public:
  tree_run(const tree_scenario& plan, std::ostream* trace)
      : plan_(plan),
        end_(1s + plan.faults_end),
        world_(plan.nodes, plan.options, plan.seed, trace) {
    usual_.queue_size = link_queue;
    if (plan.crowded) {
      usual_.delay_max = 300ms;
      usual_.kernel_holds = 1000;
      usual_.queue_size = 5000;
    }
    world_.net.conditions = usual_;
  }

  test::run_result run();

 private:
  void happen(const tree_event& one);
  // Until `time` is over, or all faults are.
  template <class Value>
  void set_for(std::chrono::nanoseconds until, Value network_conditions::*field, Value value) {
    world_.net.conditions.*field = value;
    world_.net.at(until, [this, field] { world_.net.conditions.*field = usual_.*field; });
  }

  const tree_scenario& plan_;
  const std::chrono::nanoseconds end_;
  network_conditions usual_;
  tree_world world_;
};

void tree_run::happen(const tree_event& one) {
  simulated_network& net = world_.net;
  if (one.what != tree_happening::send)
    world_.note(std::string{"-- "} + name(one.what) + ' ' + std::to_string(one.who));
  const std::chrono::nanoseconds until = std::min(net.now() + one.time, end_);
  const std::chrono::nanoseconds left = until - net.now();
  switch (one.what) {
    case tree_happening::send:
      return world_.send_many(one.who, one.whom, one.count, one.size);
    case tree_happening::cut:
      if (const std::size_t links = net.links(); links != 0)
        net.cut(world_.draw.below(links), static_cast<seen_by>(one.size % 3));
      return;
    case tree_happening::slow:
      return set_for(until, &network_conditions::delay_max,
                     std::chrono::nanoseconds{one.size * 1ms});
    case tree_happening::refuse:
      return set_for(until, &network_conditions::refuses, true);
    case tree_happening::swallow:
      return set_for(until, &network_conditions::swallows, true);
    case tree_happening::narrow:
      set_for(until, &network_conditions::queue_size, std::size_t{5000});
      return set_for(until, &network_conditions::kernel_holds,
                     static_cast<std::size_t>(one.count * 200));
    case tree_happening::stop:
      return world_.stop(one.who, until);
    case tree_happening::kill:
    case tree_happening::lose:
      return world_.kill(one.who, left, one.what == tree_happening::lose);
    case tree_happening::part:
      return world_.part_from_parent(one.who, until);
    case tree_happening::kill_many:
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(one.count, world_.size()); ++i) {
        const std::size_t whom = (one.who + i * (1 + one.whom)) % world_.size();
        net.at(std::min(net.now() + world_.draw.time(100ms), end_), [this, whom, left] {
          world_.kill(whom, std::min(left, end_ - world_.net.now()), false);
        });
      }
      return;
    case tree_happening::step_clock:
      if (world_.is_running(one.who))
        world_.process(one.who).step_clock(6 * one.time);
      return;
    case tree_happening::broadcast:
      return world_.broadcast_many(one.who, one.count, one.size);
    case tree_happening::disconnect:
      return world_.disconnect(one.who, one.whom, one.count);
    case tree_happening::call:
      return world_.meet_unproven_peer(one.who, one.whom, one.count, until);
    case tree_happening::connect:
      return world_.connect(one.who, one.whom);
    case tree_happening::kinds:
      return;
  }
}

test::run_result tree_run::run() {
  if (plan_.keeps_slots)
    world_.keep_slots();
  world_.start_all();
  if (plan_.calm)
    world_.net.at(1s + 1s, [this] { world_.stay_calm(); });
  for (const tree_event& one : plan_.events)
    world_.net.at(1s + one.when, [this, &one] { happen(one); });
  while (world_.net.now() < end_ && world_.book.fault().empty()) {
    world_.run_until(std::min(world_.net.now() + 5s, end_));
    world_.check_memory();
  }
  std::chrono::nanoseconds recovery{0};
  const auto well = [this] { return world_.book.fault().empty(); };
  if (well()) {
    world_.net.conditions = {.queue_size = link_queue};
    recovery = world_.run_until_quiet(longest_recovery);
  }
  if (well()) {
    world_.end_faults();
    world_.check_memory();
    world_.check_links(4);  // two that are better may be offered, and both ends dial them
    world_.check_ways(std::max<std::size_t>(132, world_.size()));
  }
  if (well()) {
    world_.check_nobody(std::max<std::size_t>(32, world_.size() / 4));
    world_.check_memory();
  }
  if (well())
    world_.check_wanted();
  if (well())
    world_.check_broadcasts(4);
  if (well())
    world_.check_idle();
  if (well())
    world_.check_links(1);
  if (well())
    world_.check_leaving();
  return {.fault = world_.book.fault(),
          .messages = world_.book.accepted_count(),
          .node_time = (world_.net.now() - 1s) * static_cast<std::int64_t>(world_.size()),
          .recovery = recovery};
}

}  // namespace

test::run_result run(const tree_scenario& all, std::ostream* trace) {
  return tree_run{all, trace}.run();
}

}  // namespace atbus::detail
