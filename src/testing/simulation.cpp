#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "atbus/testing.hpp"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"
#include "testing/simulation_access.h"

namespace atbus::testing {

using namespace std::chrono_literals;

namespace {

constexpr const char* seed_variable = "ATBUS_SIMULATION_SEED";
// The longest that a planned fault goes on, and the longest delay.
constexpr std::chrono::nanoseconds longest_fault = 10s;
constexpr std::chrono::nanoseconds longest_delay = 500ms;
constexpr std::chrono::nanoseconds longest_clock_step = 1min;

std::optional<std::uint64_t> wanted_seed() {
  const char* const text = std::getenv(seed_variable);
  if (text == nullptr)
    return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t seed = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
    std::fprintf(stderr, "%s is \"%s\" but must be a whole number below 2^64: left out\n",
                 seed_variable, text);
    return std::nullopt;
  }
  return seed;
}

std::uint64_t choose_seed() {
  const std::uint64_t seed = wanted_seed().value_or(std::random_device{}());
  std::fprintf(stderr, "%s=%llu makes this run again\n", seed_variable,
               static_cast<unsigned long long>(seed));
  return seed;
}

detail::host_identity host_of(unsigned number) {
  detail::host_identity made{};
  for (std::size_t i = 0; i < sizeof number; ++i)
    made[i] = static_cast<std::byte>(number >> (8 * i));
  made.back() = std::byte{1};  // all zero would be no host
  return made;
}

}  // namespace

struct simulation::state {
  struct incarnation {
    // While its program or its end is called.
    class call {
     public:
      explicit call(incarnation& of) noexcept : of_(of) { ++of_.calls; }
      ~call() { --of_.calls; }
      call(const call&) = delete;
      call& operator=(const call&) = delete;

     private:
      incarnation& of_;
    };

    incarnation(detail::simulated_network& net, bus_id id, const process_options& options)
        : node(net, id, options.node, host_of(options.host)) {}

    // Whether code of its program is running, which it must outlive.
    [[nodiscard]] bool is_in_use() const noexcept { return calls != 0 || node.is_in_use(); }

    unsigned calls = 0;
    detail::simulated_node node;
    std::shared_ptr<void> kept;  // by its program; ends before the node
  };
  struct process {
    process_options options;
    beginning what;
    std::unique_ptr<incarnation> current;  // null: it has ended in full
    std::uint64_t lives = 0;

    [[nodiscard]] bool is_in_use() const { return current && current->is_in_use(); }
    [[nodiscard]] bool is_running() const { return current && current->node.user().is_open(); }
  };

  explicit state(std::uint64_t seed_of_it)
      : seed(seed_of_it), net(seed_of_it), random(seed_of_it + 1), began(net.now()) {
    net.before_step = [this] { start_those_that_wait(); };
  }

  void start(bus_id id);
  void start_those_that_wait();
  void end(process& of);
  // Whether code of a program may be running.
  [[nodiscard]] bool is_in_use() const;
  void end_those_that_are_over();
  void wake_all();
  bool step(std::chrono::nanoseconds until);
  [[nodiscard]] process& at(bus_id id);
  [[nodiscard]] bool is_idle();
  std::chrono::nanoseconds draw_time(std::chrono::nanoseconds longest);
  [[nodiscard]] std::vector<bus_id> running() const;

  const std::uint64_t seed;
  detail::simulated_network net;
  std::mt19937_64 random;
  std::map<std::uint64_t, process> processes;
  std::set<std::uint64_t> to_restart;  // once what runs of the old incarnation has returned
  const std::chrono::nanoseconds began;
};

simulation::state::process& simulation::state::at(bus_id id) {
  const auto found = processes.find(id.value());
  if (found == processes.end() || !found->second.is_running())
    throw std::logic_error{"node " + id.to_string() + " is not running"};
  return found->second;
}

void simulation::state::start(bus_id id) {
  process& made = processes[id.value()];
  to_restart.erase(id.value());
  ++made.lives;
  made.current = std::make_unique<incarnation>(net, id, made.options);
  incarnation& begins = *made.current;
  const incarnation::call here{begins};
  begins.kept = made.what(begins.node.user());
  begins.node.wake();
}

// A node that waits runs the simulation too. So the old incarnation may be in use for many steps.
void simulation::state::start_those_that_wait() {
  for (auto next = to_restart.begin(); next != to_restart.end();) {
    const std::uint64_t id = *next;
    process& of = processes[id];
    if (of.is_in_use()) {
      ++next;
      continue;
    }
    of.current.reset();
    if (to_restart.contains(id))  // what it has kept may restart it
      start(bus_id{id});
    next = to_restart.begin();  // the program may have restarted others
  }
}

void simulation::state::end(process& of) {
  if (!of.current)
    return;
  {
    const incarnation::call here{*of.current};
    of.current->node.end();
  }
  if (net.depth() == 0 && !of.is_in_use())
    of.current.reset();
}

bool simulation::state::is_in_use() const {
  return net.depth() != 0 || std::any_of(processes.begin(), processes.end(),
                                         [](const auto& one) { return one.second.is_in_use(); });
}

void simulation::state::end_those_that_are_over() {
  for (auto& [id, one] : processes) {
    if (one.current && one.current->node.is_over())
      end(one);
  }
}

void simulation::state::wake_all() {
  for (auto& [id, one] : processes) {
    if (one.is_running())
      one.current->node.wake();
  }
}

bool simulation::state::step(std::chrono::nanoseconds until) {
  const bool stepped = net.step(until);
  if (net.depth() == 0)
    end_those_that_are_over();
  return stepped;
}

bool simulation::state::is_idle() {
  return net.under_way() == 0 && to_restart.empty() &&
         std::all_of(processes.begin(), processes.end(), [](auto& one) {
           return !one.second.current || one.second.current->node.user().is_settled();
         });
}

std::chrono::nanoseconds simulation::state::draw_time(std::chrono::nanoseconds longest) {
  return std::chrono::nanoseconds{random() % (static_cast<std::uint64_t>(longest.count()) + 1)};
}

std::vector<bus_id> simulation::state::running() const {
  std::vector<bus_id> all;
  for (const auto& [id, one] : processes) {
    if (one.is_running())
      all.emplace_back(id);
  }
  return all;
}

simulation::simulation() : simulation(choose_seed()) {}
simulation::simulation(std::uint64_t seed) : state_(std::make_unique<state>(seed)) {}

simulation::~simulation() {
  for (auto& [id, one] : state_->processes)
    state_->end(one);
}

std::uint64_t simulation::seed() const noexcept {
  return state_->seed;
}

std::uint64_t simulation::draw(std::uint64_t limit) {
  return state_->random() % limit;
}

void simulation::begin(bus_id id, const process_options& options, beginning what) {
  if (is_running(id))
    throw std::logic_error{"node " + id.to_string() + " is running already"};
  state::process& made = state_->processes[id.value()];
  made.options = options;
  made.what = std::move(what);
  restart(id);
}

bool simulation::is_running(bus_id id) const noexcept {
  const auto found = state_->processes.find(id.value());
  return found != state_->processes.end() && found->second.is_running();
}

node& simulation::node(bus_id id) {
  return state_->at(id).current->node.user();
}

void simulation::kill(bus_id id) {
  state_->end(state_->at(id));
}

void simulation::restart(bus_id id) {
  state::process& former = state_->processes[id.value()];
  state_->end(former);  // one that has ended by itself may not have been told
  if (!former.current)
    return state_->start(id);
  state_->to_restart.insert(id.value());
}

void simulation::stop_for(bus_id id, std::chrono::nanoseconds time) {
  state_->at(id).current->node.stop_until(moment_after(state_->net.now(), time));
}

void simulation::step_clock(bus_id id, std::chrono::nanoseconds ahead) {
  state_->at(id).current->node.step_clock(ahead);
}

network_conditions& simulation::conditions() noexcept {
  return state_->net.conditions;
}

void simulation::cut(bus_id one, bus_id other, seen_by who) {
  state_->net.cut(one, other, who);
}

void simulation::separate(bus_id one, bus_id other) {
  state_->net.separate(one, other);
}

void simulation::join(bus_id one, bus_id other) {
  state_->net.join(one, other);
}

void simulation::disturb(std::chrono::nanoseconds time, const disturbances& what) {
  const std::chrono::nanoseconds end = moment_after(state_->net.now(), time);
  // Calls `fault` so often, at random moments, with the moment when it is to be over.
  const auto plan = [&](unsigned times,
                        const std::function<void(std::chrono::nanoseconds)>& fault) {
    for (unsigned i = 0; i < times; ++i) {
      const auto when = moment_after(state_->net.now(), state_->draw_time(time));
      const auto over = std::min(end, when + state_->draw_time(longest_fault));
      state_->net.at(when, [fault, over] { fault(over); });
    }
  };
  const auto one_that_runs = [this](const std::function<void(bus_id)>& fault) {
    if (const std::vector<bus_id> all = state_->running(); !all.empty())
      fault(all[draw(all.size())]);
  };
  plan(what.cuts, [this](std::chrono::nanoseconds) {
    if (const std::size_t links = state_->net.links(); links != 0)
      state_->net.cut(draw(links), static_cast<seen_by>(draw(3)));
  });
  plan(what.delays, [&faults = state_->net.faults, this](std::chrono::nanoseconds over) {
    const auto slow = faults.delays.insert(state_->draw_time(longest_delay));
    state_->net.at(over, [&faults, slow] { faults.delays.erase(slow); });
  });
  plan(what.refusals, [&faults = state_->net.faults, this](std::chrono::nanoseconds over) {
    ++faults.refusals;
    state_->net.at(over, [&faults] { --faults.refusals; });
  });
  plan(what.stops, [this, one_that_runs](std::chrono::nanoseconds over) {
    one_that_runs([&](bus_id id) { stop_for(id, over - state_->net.now()); });
  });
  plan(what.restarts, [this, one_that_runs](std::chrono::nanoseconds over) {
    one_that_runs([&](bus_id id) {
      kill(id);
      state_->net.at(over, [this, id, instance = state_->processes[id.value()].lives] {
        if (state_->processes[id.value()].lives == instance)
          restart(id);
      });
    });
  });
  plan(what.clock_steps, [this, one_that_runs](std::chrono::nanoseconds) {
    one_that_runs([&](bus_id id) { step_clock(id, state_->draw_time(longest_clock_step)); });
  });
}

std::chrono::nanoseconds simulation::now() const noexcept {
  return state_->net.now() - state_->began;
}

void simulation::after(std::chrono::nanoseconds time, std::function<void()> what) {
  state_->net.at(moment_after(state_->net.now(), time), [this, what = std::move(what)] {
    what();
    state_->wake_all();
  });
}

bool simulation::step() {
  state_->wake_all();
  return state_->step(std::chrono::nanoseconds::max());
}

void simulation::run_for(std::chrono::nanoseconds time) {
  run_until([] { return false; }, time);
}

bool simulation::run_until(const std::function<bool()>& holds, std::chrono::nanoseconds longest) {
  const std::chrono::nanoseconds end = moment_after(state_->net.now(), longest);
  state_->wake_all();
  while (!holds()) {
    if (!state_->step(end)) {
      state_->net.run_until(end);
      return false;
    }
  }
  return true;
}

bool simulation::run_until_idle(std::chrono::nanoseconds longest) {
  return run_until([this] { return state_->is_idle(); }, longest);
}

std::optional<std::uint64_t> first_failing_seed(std::uint64_t count,
                                                const std::function<bool(simulation&)>& holds) {
  const std::uint64_t first = wanted_seed().value_or(1);
  const std::uint64_t end = wanted_seed() ? first + 1 : first + count;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    simulation sim{seed};
    if (holds(sim))
      continue;
    std::fprintf(stderr, "it does not hold with seed %llu: %s=%llu runs that one alone\n",
                 static_cast<unsigned long long>(seed), seed_variable,
                 static_cast<unsigned long long>(seed));
    return seed;
  }
  return std::nullopt;
}

}  // namespace atbus::testing

namespace atbus::detail {

void simulation_access::start(testing::simulation& of, bus_id id,
                              const testing::process_options& options, beginning what) {
  of.begin(id, options, [&of, id, what = std::move(what)](node&) {
    return what(of.state_->processes[id.value()].current->node);
  });
}

bool simulation_access::is_idle(testing::simulation& of) {
  return of.state_->is_idle();
}

bool simulation_access::is_in_use(const testing::simulation& of) noexcept {
  return of.state_->is_in_use();
}

}  // namespace atbus::detail
