// atbus._bus.Simulation: the functions of atbus/atbus_simulation.h. Nothing waits: the interpreter's lock is held, but
// for a moment at times, so that other threads go on.
#include "simulation.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lock.h"
#include "node.h"
#include "options.h"

namespace atbus_python {
namespace {

class simulation {
 public:
  simulation(std::optional<std::uint64_t> seed, nb::object begun, nb::object ended)
      : bus_(std::make_shared<simulated_bus>(seed ? &*seed : nullptr, std::move(begun),
                                             std::move(ended))) {}

  [[nodiscard]] atbus_simulation* self() const { return bus_->self(); }
  // Raises what handlers have raised, else what has failed.
  atbus_code check_call(atbus_code how) const {
    bus_->raised.raise();
    if (how != ATBUS_TIMED_OUT)
      check(how);
    return how;
  }
  void close() const {
    bus_->close();
    bus_->raised.raise();
  }
  void start(std::uint64_t id, std::uint32_t host, const nb::dict& given) const {
    atbus_node_options options;
    option_texts texts;
    set_options(options, given, texts);
    check_call(atbus_simulation_start(self(), id, host, &options, begin, end, bus_.get()));
  }
  // Until it holds, if it is not None; a handler raises; or the user interrupts it.
  bool run(double longest, bool until_idle, nb::object holds) const {
    struct watch {
      simulated_bus& bus;
      nb::object holds;
      unsigned calls;
    } here{*bus_, holds.is_none() ? nb::object{} : std::move(holds), 0};
    const atbus_holds_callback stop = [](void* user) {
      return with_lock([&] {
        auto& of = *static_cast<watch*>(user);
        constexpr unsigned calls_per_pause = 1024;
        try {
          if (++of.calls % calls_per_pause == 0) {
            { const without_lock others_run; }
            if (PyErr_CheckSignals() != 0)
              throw nb::python_error();
          }
          if (!of.bus.raised && of.holds && nb::bool_(of.holds()))
            return 1;
        } catch (nb::python_error& thrown) {
          of.bus.raised.keep(thrown);
        }
        return of.bus.raised ? 1 : 0;
      });
    };
    const std::int64_t limit = to_ns(longest);
    return check_call(until_idle ? atbus_simulation_run_until_idle(self(), stop, &here, limit)
                                 : atbus_simulation_run(self(), stop, &here, limit)) == ATBUS_OK;
  }

 private:
  static void begin(void* user, atbus_node* handle) {
    with_lock([&] {
      auto& of = *static_cast<simulated_bus*>(user);
      try {
        auto made = std::make_unique<node>(handle, of.shared_from_this());
        const nb::object given = nb::cast(made.get(), nb::rv_policy::take_ownership);
        made.release();
        of.begun(given);
      } catch (nb::python_error& thrown) {
        of.raised.keep(thrown);
      }
    });
  }
  static void end(void* user, std::uint64_t id) {
    with_lock([&] {
      auto& of = *static_cast<simulated_bus*>(user);
      try {
        of.ended(id);
      } catch (nb::python_error& thrown) {
        of.raised.keep(thrown);
      }
    });
  }

  std::shared_ptr<simulated_bus> bus_;
};

void disturb(const simulation& of, double time, const std::array<std::uint32_t, 6>& times) {
  atbus_disturbances what;
  atbus_disturbances_init(&what);
  std::uint32_t* const places[] = {&what.cuts,  &what.delays,   &what.refusals,
                                   &what.stops, &what.restarts, &what.clock_steps};
  for (std::size_t i = 0; i != times.size(); ++i)
    *places[i] = times[i];
  check(atbus_simulation_disturb(of.self(), to_ns(time), &what));
}

void set_conditions(const simulation& of, std::optional<double> delay_min,
                    std::optional<double> delay_max, bool refuses, bool swallows) {
  atbus_network_conditions all;
  atbus_network_conditions_init(&all);
  if (delay_min)
    all.delay_min_ns = to_ns(*delay_min);
  if (delay_max)
    all.delay_max_ns = to_ns(*delay_max);
  all.refuses = refuses ? 1 : 0;
  all.swallows = swallows ? 1 : 0;
  check(atbus_simulation_set_conditions(of.self(), &all));
}

}  // namespace

void bind_simulation(nb::module_& in) {
  using id = std::uint64_t;
  nb::class_<simulation>(in, "Simulation")
      .def(nb::init<std::optional<std::uint64_t>, nb::object, nb::object>(), nb::arg().none(),
           nb::arg(), nb::arg())
      .def("close", &simulation::close)
      .def("seed", [](simulation& of) { return atbus_simulation_seed(of.self()); })
      .def("now", [](simulation& of) { return atbus_simulation_now(of.self()); })
      .def("start", &simulation::start)
      .def("is_running",
           [](simulation& of, id one) { return atbus_simulation_is_running(of.self(), one) != 0; })
      .def("kill",
           [](simulation& of, id one) { of.check_call(atbus_simulation_kill(of.self(), one)); })
      .def("restart",
           [](simulation& of, id one) { of.check_call(atbus_simulation_restart(of.self(), one)); })
      .def("stop_for",
           [](simulation& of, id one, double time) {
             check(atbus_simulation_stop_for(of.self(), one, to_ns(time)));
           })
      .def("step_clock",
           [](simulation& of, id one, double ahead) {
             check(atbus_simulation_step_clock(of.self(), one, to_ns(ahead)));
           })
      .def("cut", [](simulation& of, id one, id other,
                     int who) { check(atbus_simulation_cut(of.self(), one, other, who)); })
      .def("separate", [](simulation& of, id one,
                          id other) { check(atbus_simulation_separate(of.self(), one, other)); })
      .def("join", [](simulation& of, id one,
                      id other) { check(atbus_simulation_join(of.self(), one, other)); })
      .def("set_conditions", &set_conditions, nb::arg().none(), nb::arg().none(), nb::arg(),
           nb::arg())
      .def("disturb", &disturb)
      .def("run", &simulation::run, nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace atbus_python
