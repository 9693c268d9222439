// Simulated nodes, and the simulations they belong to.
//
// A process refers to its node where that is: in the handle, which belongs to the program. The two end in any order, and
// tell each other: see process_of_handle.
#include "atbus/atbus_simulation.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "atbus/testing.hpp"
#include "node_calls.h"
#include "options.h"
#include "system/fork_guard.h"
#include "testing/simulated_node.h"
#include "testing/simulation_access.h"

using namespace atbus;
using namespace atbus::c_api;
using atbus::detail::simulated_node;
using atbus::detail::simulation_access;
using std::chrono::nanoseconds;

struct atbus_simulation {
  explicit atbus_simulation(std::optional<std::uint64_t> seed) {
    if (seed)
      self.emplace(*seed);
    else
      self.emplace();
  }

  const char* owner = &this_thread;
  const std::uint64_t forks_before = atbus::detail::forks_so_far();
  unsigned calls = 0;        // of functions that call back, and have not returned
  bool is_changing = false;  // a process begins or ends, and its callback runs
  bool is_freed = false;
  error fault;  // of the options of a process that was to begin
  std::set<std::uint64_t> started;
  std::set<atbus_node*> nodes;  // whose processes have not ended
  std::optional<testing::simulation> self;
};

namespace {

// A simulated clock counts nanoseconds in 64 bits.
constexpr nanoseconds longest_simulation = std::chrono::hours{24 * 365 * 100};
constexpr std::uint32_t disturbances_max = 1'000'000;

// What the program is told of a process.
struct process_callbacks {
  atbus_process_callback begin;
  atbus_process_end_callback end;
  void* user;
};

class counted_call {
 public:
  explicit counted_call(atbus_simulation& of) noexcept : of_(of) { ++of_.calls; }
  counted_call(const counted_call&) = delete;
  counted_call& operator=(const counted_call&) = delete;
  ~counted_call() { --of_.calls; }

 private:
  atbus_simulation& of_;
};

class changing {
 public:
  explicit changing(atbus_simulation& of) noexcept
      : of_(of), before_(std::exchange(of.is_changing, true)) {}
  changing(const changing&) = delete;
  changing& operator=(const changing&) = delete;
  ~changing() { of_.is_changing = before_; }

 private:
  atbus_simulation& of_;
  const bool before_;
};

// The simulation keeps one for each incarnation, until that has ended and none of its functions is running.
class process_of_handle final : public node_process {
 public:
  process_of_handle(atbus_simulation& simulation, simulated_node& process,
                    const process_callbacks& told, std::size_t message_limit)
      : simulation_(simulation), process_(process), told_(told) {
    auto made = std::make_unique<atbus_node>(std::move(process.user()), message_limit);
    made->set_thread(simulation.owner);
    simulation.nodes.insert(made.get());
    handle_ = made.release();
    handle_->process = this;
    process.is_at(handle_->self);
    process.before_end = [this] { end(); };
  }
  process_of_handle(const process_of_handle&) = delete;
  process_of_handle& operator=(const process_of_handle&) = delete;
  ~process_of_handle() {
    if (handle_ == nullptr)
      return;
    handle_->process = nullptr;
    simulation_.nodes.erase(handle_);
  }

  void begin() {
    const changing here{simulation_};
    told_.begin(told_.user, handle_);
  }
  void let_go() noexcept override {
    process_.bring_back();
    simulation_.nodes.erase(handle_);
    handle_ = nullptr;
  }

 private:
  void end() {
    if (handle_ != nullptr) {
      handle_->claimed.reset();
      handle_->answers->collect();
    }
    if (told_.end == nullptr)
      return;
    const changing here{simulation_};
    told_.end(told_.user, id_);
  }

  atbus_simulation& simulation_;
  simulated_node& process_;
  const process_callbacks told_;
  const std::uint64_t id_ = process_.user().id().value();
  atbus_node* handle_ = nullptr;
};

std::shared_ptr<void> begin_process(atbus_simulation& simulation, simulated_node& process,
                                    const process_callbacks& told, std::size_t message_limit) {
  if (error bad = process.user().fault(); !bad) {
    simulation.fault = std::move(bad);
    process.user().close();
    return nullptr;
  }
  auto made = std::make_shared<process_of_handle>(simulation, process, told, message_limit);
  made->begin();
  return made;
}

error no_process(std::uint64_t id, const char* why) {
  return {errc::not_found, "node " + bus_id{id}.to_string() + why};
}
error refused_in_callback(const char* what) {
  return {errc::invalid_argument, std::string{what} + " is not possible within this callback"};
}

// Calls `use` with the simulation, if it can be used here; that returns an error.
template <class Use>
atbus_code with_simulation(atbus_simulation* simulation, Use&& use) noexcept {
  return with(simulation, [&](atbus_simulation& of) {
    if (of.is_freed)
      return code_of(status{errc::closed});
    if (atbus::detail::forks_so_far() != of.forks_before)
      return code_of(status{errc::used_after_fork});
    const counted_call here{of};
    return code_of(use(of));
  });
}
bool can_be_asked(const atbus_simulation* simulation) noexcept {
  return is_usable(simulation) && !simulation->is_freed;
}

template <class Use>
atbus_code with_running(atbus_simulation* simulation, std::uint64_t id, Use&& use) noexcept {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    return of.self->is_running(bus_id{id}) ? use(of) : no_process(id, " is not running");
  });
}

template <class Use>
atbus_code with_pair(atbus_simulation* simulation, std::uint64_t one, std::uint64_t other,
                     Use&& use) noexcept {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    for (const std::uint64_t id : {one, other}) {
      if (!of.started.contains(id))
        return no_process(id, " was not started in this simulation");
    }
    use(*of.self);
    return error{};
  });
}

error check_time(const atbus_simulation& of, std::int64_t time_ns) {
  if (nanoseconds{time_ns} <= longest_simulation - of.self->now())
    return {};
  return {errc::invalid_argument, "the time is too long: a simulation ends after 100 years"};
}
nanoseconds not_negative(std::int64_t time_ns) {
  return nanoseconds{std::max(time_ns, std::int64_t{0})};
}

template <class Run>
atbus_code run(atbus_simulation* simulation, std::int64_t longest_ns, Run&& run_it) noexcept {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    if (of.calls != 1 || simulation_access::is_in_use(*of.self))
      return refused_in_callback("running the simulation");
    if (error bad = check_time(of, longest_ns); !bad)
      return bad;
    return run_it(*of.self, not_negative(longest_ns)) ? error{} : error{errc::timed_out};
  });
}

result<testing::process_options> to_process_options(std::uint32_t host,
                                                    const atbus_node_options* options) {
  testing::process_options made;
  made.host = host;
  if (options == nullptr)
    return made;
  result<node_options> wanted = to_node_options(options);
  if (!wanted)
    return wanted.error();
  made.node = *std::move(wanted);
  return made;
}

}  // namespace

atbus_code atbus_simulation_new(const uint64_t* seed, atbus_simulation** simulation) {
  if (simulation == nullptr)
    return refuse_null("the place for the simulation");
  *simulation = nullptr;
  return guard([&] {
    *simulation = new atbus_simulation{seed != nullptr ? std::optional{*seed} : std::nullopt};
    return ATBUS_OK;
  });
}

atbus_code atbus_simulation_free(atbus_simulation* simulation) {
  if (simulation == nullptr)
    return ATBUS_OK;
  return with(simulation, [](atbus_simulation& of) {
    if (of.is_freed || of.calls != 0 || simulation_access::is_in_use(*of.self))
      return code_of(refused_in_callback("freeing the simulation"));
    of.is_freed = true;
    delete &of;
    return ATBUS_OK;
  });
}

atbus_code atbus_simulation_adopt(atbus_simulation* simulation) {
  if (simulation == nullptr)
    return refuse_null("the handle");
  simulation->owner = &this_thread;
  for (atbus_node* one : simulation->nodes)
    one->set_thread(&this_thread);
  return ATBUS_OK;
}

uint64_t atbus_simulation_seed(const atbus_simulation* simulation) {
  return can_be_asked(simulation) ? simulation->self->seed() : 0;
}

int64_t atbus_simulation_now(const atbus_simulation* simulation) {
  return can_be_asked(simulation) ? simulation->self->now().count() : 0;
}

atbus_code atbus_simulation_start(atbus_simulation* simulation, uint64_t id, uint32_t host,
                                  const atbus_node_options* options, atbus_process_callback begin,
                                  atbus_process_end_callback end, void* user) {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    if (begin == nullptr)
      return error{errc::invalid_argument, "the callback with which the process begins is NULL"};
    if (of.calls != 1 || simulation_access::is_in_use(*of.self))
      return refused_in_callback("starting a process");
    if (of.self->is_running(bus_id{id}))
      return error{errc::invalid_argument,
                   "node " + bus_id{id}.to_string() + " is running already"};
    result<testing::process_options> wanted = to_process_options(host, options);
    if (!wanted)
      return wanted.error();
    of.fault = {};
    const std::size_t message_limit = wanted->node.message_limit();
    simulation_access::start(
        *of.self, bus_id{id}, *wanted,
        [&of, message_limit, told = process_callbacks{begin, end, user}](simulated_node& process) {
          return begin_process(of, process, told, message_limit);
        });
    if (!of.fault)
      return std::exchange(of.fault, {});
    of.started.insert(id);
    return error{};
  });
}

int atbus_simulation_is_running(const atbus_simulation* simulation, uint64_t id) {
  return can_be_asked(simulation) && simulation->self->is_running(bus_id{id}) ? 1 : 0;
}

atbus_code atbus_simulation_kill(atbus_simulation* simulation, uint64_t id) {
  return with_running(simulation, id, [&](atbus_simulation& of) {
    if (of.is_changing)
      return refused_in_callback("killing a process");
    of.self->kill(bus_id{id});
    return error{};
  });
}

atbus_code atbus_simulation_restart(atbus_simulation* simulation, uint64_t id) {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    if (of.is_changing)
      return refused_in_callback("restarting a process");
    if (!of.started.contains(id))
      return no_process(id, " was not started in this simulation");
    of.self->restart(bus_id{id});
    return error{};
  });
}

atbus_code atbus_simulation_stop_for(atbus_simulation* simulation, uint64_t id, int64_t time_ns) {
  return with_running(simulation, id, [&](atbus_simulation& of) {
    error bad = check_time(of, time_ns);
    if (bad)
      of.self->stop_for(bus_id{id}, not_negative(time_ns));
    return bad;
  });
}

atbus_code atbus_simulation_step_clock(atbus_simulation* simulation, uint64_t id,
                                       int64_t ahead_ns) {
  return with_running(simulation, id, [&](atbus_simulation& of) {
    error bad = check_time(of, ahead_ns);
    if (bad)
      of.self->step_clock(bus_id{id}, not_negative(ahead_ns));
    return bad;
  });
}

atbus_code atbus_simulation_cut(atbus_simulation* simulation, uint64_t one, uint64_t other,
                                int who) {
  if (who < ATBUS_SEEN_BY_BOTH || who > ATBUS_SEEN_BY_NONE)
    return code_of(
        error{errc::invalid_argument, "who notices the end of a link is no atbus_seen_by"});
  return with_pair(simulation, one, other, [&](testing::simulation& of) {
    of.cut(bus_id{one}, bus_id{other}, static_cast<testing::seen_by>(who));
  });
}

atbus_code atbus_simulation_separate(atbus_simulation* simulation, uint64_t one, uint64_t other) {
  return with_pair(simulation, one, other,
                   [&](testing::simulation& of) { of.separate(bus_id{one}, bus_id{other}); });
}

atbus_code atbus_simulation_join(atbus_simulation* simulation, uint64_t one, uint64_t other) {
  return with_pair(simulation, one, other,
                   [&](testing::simulation& of) { of.join(bus_id{one}, bus_id{other}); });
}

atbus_code atbus_simulation_set_conditions(atbus_simulation* simulation,
                                           const atbus_network_conditions* conditions) {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    atbus_network_conditions known;
    atbus_network_conditions_init(&known);
    if (error bad = copy_known(conditions, sizeof(std::size_t), known); !bad)
      return bad;
    if (known.delay_min_ns < 0 || known.delay_max_ns < known.delay_min_ns)
      return error{errc::invalid_argument,
                   "the delays are below 0, or the longest is the shorter one"};
    if (error bad = check_time(of, known.delay_max_ns); !bad)
      return bad;
    testing::network_conditions& to = of.self->conditions();
    to.delay_min = nanoseconds{known.delay_min_ns};
    to.delay_max = nanoseconds{known.delay_max_ns};
    to.refuses = known.refuses != 0;
    to.swallows = known.swallows != 0;
    return error{};
  });
}

atbus_code atbus_simulation_disturb(atbus_simulation* simulation, int64_t time_ns,
                                    const atbus_disturbances* what) {
  return with_simulation(simulation, [&](atbus_simulation& of) {
    atbus_disturbances known;
    atbus_disturbances_init(&known);
    if (error bad = copy_known(what, sizeof(std::size_t), known); !bad)
      return bad;
    if (error bad = check_time(of, time_ns); !bad)
      return bad;
    for (const std::uint32_t times : {known.cuts, known.delays, known.refusals, known.stops,
                                      known.restarts, known.clock_steps}) {
      if (times > disturbances_max)
        return error{errc::invalid_argument, "a fault can happen at most 1,000,000 times"};
    }
    of.self->disturb(not_negative(time_ns), {.cuts = known.cuts,
                                             .delays = known.delays,
                                             .refusals = known.refusals,
                                             .stops = known.stops,
                                             .restarts = known.restarts,
                                             .clock_steps = known.clock_steps});
    return error{};
  });
}

atbus_code atbus_simulation_run(atbus_simulation* simulation, atbus_holds_callback holds,
                                void* user, int64_t longest_ns) {
  return run(simulation, longest_ns, [&](testing::simulation& of, nanoseconds longest) {
    if (holds != nullptr)
      return of.run_until([&] { return holds(user) != 0; }, longest);
    of.run_for(longest);
    return true;
  });
}

atbus_code atbus_simulation_run_until_idle(atbus_simulation* simulation, atbus_holds_callback stop,
                                           void* user, int64_t longest_ns) {
  return run(simulation, longest_ns, [&](testing::simulation& of, nanoseconds longest) {
    return of.run_until(
        [&] { return (stop != nullptr && stop(user) != 0) || simulation_access::is_idle(of); },
        longest);
  });
}
