/// @file
/// Tests of a program's handlers on a simulated bus: several nodes in one thread, on a network and
/// a clock in memory, with faults drawn from a seed. Link atbus::testing.
///
/// ```cpp
/// atbus::testing::simulation sim{seed};
/// sim.start(2, [&](atbus::node& node) {                      // as in main(), up to run()
///   (void)node.listen("ipv4://10.0.0.2:7000");
///   return std::make_unique<order_desk>(node, database);     // lives as long as the process does
/// });
/// sim.start(1, [&](atbus::node& node) { (void)node.connect(2, "ipv4://10.0.0.2:7000"); });
/// sim.disturb(std::chrono::seconds{30});                     // cuts, refusals, restarts, ...
/// sim.node(1).send(2, kOrder, "one apple");
/// sim.run_until_idle();
/// ```
///
/// The nodes are real: they run the same code as in production, registration and acknowledgements
/// included. The channels, the clock and the randomness below them are simulated. Any address
/// works; addresses other than TCP connect processes of one host only. mem:// and shm:// behave as
/// memory: a message arrives at once, and at shm:// it also waits for the next incarnation of a
/// process.
///
/// The same seed and the same program make the same run. `simulation{}` draws a seed, or takes it
/// from the environment variable ATBUS_SIMULATION_SEED, and prints it to standard error.
///
/// Time advances only in step, run_for, run_until and run_until_idle, and in a node's own wait, run
/// and shutdown, which run the simulation meanwhile and return once their own process is killed.
/// Handlers run inside these functions, which pass their exceptions on.
///
/// Ownership: a simulation owns its nodes. Threads: one. Errors: std::logic_error if a call needs a
/// running process and it is not running, if a process is started twice, or if a node waits without
/// limit when no event is left.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "atbus/bus_id.hpp"
#include "atbus/node.hpp"
#include "atbus/node_options.hpp"

namespace atbus::detail {
struct simulation_access;
}  // namespace atbus::detail

/// A simulated bus for tests; see atbus/testing.hpp.
namespace atbus::testing {

/// Conditions for links made, and messages sent, from now on.
struct network_conditions {
  /// The shortest time that a message is on its way.
  std::chrono::nanoseconds delay_min = std::chrono::microseconds{50};
  /// The longest time that a message is on its way. Each draws its own.
  std::chrono::nanoseconds delay_max = std::chrono::microseconds{500};
  bool refuses = false;   ///< New connections are refused.
  bool swallows = false;  ///< New connections get no answer.
  /// How long an attempt to connect waits for an answer.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  std::size_t kernel_holds = 64 * 1024;  ///< Bytes in flight in each direction of a link.
  /// Bytes in the queue of a link; the node's options apply if they ask for less.
  std::size_t queue_size = std::numeric_limits<std::size_t>::max();
};

/// Which ends of a link notice that it ends. Within one host both do.
enum class seen_by : std::uint8_t {
  both,  ///< Both ends.
  one,   ///< One end, drawn at random.
  none,  ///< Neither end.
};

/// Options of a process.
struct process_options {
  /// Options of its node.
  node_options node = node_options{}.allow_unauthenticated();
  unsigned host = 1;  ///< Processes with the same number share memory and Unix sockets.
};

/// How many times each fault happens during a disturb().
struct disturbances {
  unsigned cuts = 4;         ///< A link ends, noticed by both, one or none of its ends.
  unsigned delays = 2;       ///< Messages take up to 0.5 s longer for a while.
  unsigned refusals = 1;     ///< Connections are refused for a while.
  unsigned stops = 1;        ///< A process is stopped for a while.
  unsigned restarts = 1;     ///< A process is killed, and started again after a while.
  unsigned clock_steps = 1;  ///< The clock of a process jumps ahead by up to 1 min.
};

/// A simulated bus: processes with one node each, their hosts and the network. See
/// atbus/testing.hpp.
class simulation {
 public:
  simulation();
  /// Makes a simulation that draws everything from this seed.
  explicit simulation(std::uint64_t seed);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// The seed, to run the simulation again.
  [[nodiscard]] std::uint64_t seed() const noexcept;
  /// The next random number of the seed, below `limit` (not 0), for choices of the test's own.
  std::uint64_t draw(std::uint64_t limit);

  /// Starts a process with one node. Calls `program` with the node now, and again at each restart:
  /// it sets handlers, listens and connects. Its return value, if any, is destroyed when the
  /// process ends, before the node. `program` must not move the node. node::stop() ends the process
  /// as it ends run().
  template <class Program>
  void start(bus_id id, Program program, const process_options& options = {}) {
    begin(id, options, [program = std::move(program)](atbus::node& node) mutable {
      if constexpr (std::is_void_v<std::invoke_result_t<Program&, atbus::node&>>) {
        program(node);
        return std::shared_ptr<void>{};
      } else {
        using kept = std::invoke_result_t<Program&, atbus::node&>;
        return std::shared_ptr<void>{std::make_shared<kept>(program(node))};
      }
    });
  }
  /// Whether the process was started and has not ended.
  [[nodiscard]] bool is_running(bus_id id) const noexcept;
  /// The node of a process that is running.
  [[nodiscard]] atbus::node& node(bus_id id);

  /// Ends the process as SIGKILL does. From a handler: once the handler has returned.
  void kill(bus_id id);
  /// Starts that process anew; kills it first if it is running.
  void restart(bus_id id);
  /// Stops the process as SIGSTOP does, and continues it after `time`, as SIGCONT does. Here and
  /// below, a negative time counts as 0.
  void stop_for(bus_id id, std::chrono::nanoseconds time);
  /// Moves the clock of the process ahead, as on a machine that was suspended.
  void step_clock(bus_id id, std::chrono::nanoseconds ahead);

  /// The conditions of the network, which may be changed at any time.
  [[nodiscard]] network_conditions& conditions() noexcept;
  /// Ends the links between two nodes, except through memory. In each direction, the messages in
  /// flight are lost from a random one on.
  void cut(bus_id one, bus_id other, seen_by who = seen_by::both);
  /// Blocks TCP between the two nodes until they are joined; neither is notified.
  void separate(bus_id one, bus_id other);
  /// Ends a separation.
  void join(bus_id one, bus_id other);
  /// Plans faults at random moments of the next `time`. At its end all faults are over, and all
  /// processes that they stopped or killed are running. They do not change conditions().
  void disturb(std::chrono::nanoseconds time, const disturbances& what = {});

  /// Time since the simulation was made.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept;
  /// Calls `what` after `time`.
  void after(std::chrono::nanoseconds time, std::function<void()> what);

  /// Runs the next event. False: there is none.
  bool step();
  /// Runs all events of the next `time`; afterwards the clock has advanced by `time`.
  void run_for(std::chrono::nanoseconds time);
  /// Runs until `holds` returns true; calls it after each step. False: it did not within `longest`.
  bool run_until(const std::function<bool()>& holds,
                 std::chrono::nanoseconds longest = std::chrono::minutes{1});
  /// Runs until nothing is in flight, nothing is planned by after() or disturb(), and every
  /// accepted message is delivered or reported. False: not within `longest`.
  bool run_until_idle(std::chrono::nanoseconds longest = std::chrono::minutes{1});

 private:
  friend struct detail::simulation_access;
  using beginning = std::function<std::shared_ptr<void>(atbus::node&)>;
  struct state;

  void begin(bus_id id, const process_options& options, beginning what);

  std::unique_ptr<state> state_;
};

/// Runs `holds` with one simulation for each of the seeds 1 to `count`, or only for that of
/// ATBUS_SIMULATION_SEED if it is set. Returns the first seed for which `holds` returns false, and
/// prints how to run it again.
[[nodiscard]] std::optional<std::uint64_t> first_failing_seed(
    std::uint64_t count, const std::function<bool(simulation&)>& holds);

}  // namespace atbus::testing
