// Tests of your own handlers on a simulated bus: several nodes in one thread, on a network and a clock
// that exist in memory only, under faults that follow from a seed. Link atbus::testing.
//
//   atbus::testing::simulation sim{seed};
//   sim.start(2, [&](atbus::node& node) {                      // as in main(), up to run()
//     (void)node.listen("ipv4://10.0.0.2:7000");
//     return std::make_unique<order_desk>(node, database);     // lives as long as the process does
//   });
//   sim.start(1, [&](atbus::node& node) { (void)node.connect(2, "ipv4://10.0.0.2:7000"); });
//   sim.disturb(std::chrono::seconds{30});                     // cuts, refusals, restarts, ...
//   sim.node(1).send(2, kOrder, "one apple");
//   sim.run_until_idle();
//
// The nodes are real: the same code as in your program, registration, acknowledgements and all. Simulated
// are the channels, the clock and the randomness below them. Any address works; what is not TCP connects
// processes of one host only. mem:// and shm:// are memory: what was sent is there at once; at shm:// it
// also waits there for the next life of a process.
//
// The same seed and the same program make the same run. `simulation{}` draws a seed, or takes the
// environment's ATBUS_SIMULATION_SEED, and prints it to standard error.
//
// Time stands still but for step, run_for, run_until and run_until_idle, and for a node's own wait, run
// and shutdown, which run the simulation meanwhile. Handlers run inside these; what one throws leaves
// them. Not for several threads.
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

namespace atbus::testing {

// What holds for links that are made, and messages that are sent, from now on.
struct network_conditions {
  std::chrono::nanoseconds delay_min = std::chrono::microseconds{50};
  std::chrono::nanoseconds delay_max = std::chrono::microseconds{500};
  bool refuses = false;   // connections are refused,
  bool swallows = false;  // or get no answer
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  std::size_t kernel_holds = 64 * 1024;  // bytes under way, each direction of a link
  // Bytes in a link's queue, where what the node's options ask for is not less.
  std::size_t queue_size = std::numeric_limits<std::size_t>::max();
};

// Which ends of a link see that it ends. Within one host both do.
enum class seen_by : std::uint8_t { both, one, none };

struct process_options {
  node_options node = node_options{}.allow_unauthenticated();
  unsigned host = 1;  // processes with the same number share memory and Unix sockets
};

// How often each happens in the time of a disturb().
struct disturbances {
  unsigned cuts = 4;         // of a link, seen by both, one or none of its ends
  unsigned delays = 2;       // messages take up to half a second for a while
  unsigned refusals = 1;     // connections are refused for a while
  unsigned stops = 1;        // a process stands still for a while
  unsigned restarts = 1;     // a process is killed, and begins again after a while
  unsigned clock_steps = 1;  // a process's clock jumps ahead by up to a minute
};

class simulation {
 public:
  simulation();
  explicit simulation(std::uint64_t seed);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  [[nodiscard]] std::uint64_t seed() const noexcept;
  // The seed's next number, below `limit`, for choices of your own.
  std::uint64_t draw(std::uint64_t limit);

  // Begins a process with one node. `program` is called with it now, and again at each restart: it sets
  // handlers, listens and connects. What it returns, if anything, is destroyed when the process ends,
  // before the node. The node must stay where it is. node::stop() ends the process as it ends run().
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
  // Whether that process was started and has not ended.
  [[nodiscard]] bool is_running(bus_id id) const noexcept;
  // Of a process that is running.
  [[nodiscard]] atbus::node& node(bus_id id);

  // As SIGKILL. From a handler: once that returns.
  void kill(bus_id id);
  // Starts that process anew; kills it first if it is running.
  void restart(bus_id id);
  // Of these times and those below one that is negative counts as 0.
  // As SIGSTOP, and SIGCONT after that time.
  void stop_for(bus_id id, std::chrono::nanoseconds time);
  // Its clock jumps ahead, as on a machine that was suspended.
  void step_clock(bus_id id, std::chrono::nanoseconds ahead);

  [[nodiscard]] network_conditions& conditions() noexcept;
  // Ends the links between two nodes, but for memory. What is under way each way is lost from a random
  // message on.
  void cut(bus_id one, bus_id other, seen_by who = seen_by::both);
  // No TCP between the two, and nobody is told, until they are joined.
  void separate(bus_id one, bus_id other);
  void join(bus_id one, bus_id other);
  // Plans faults at random moments of the time to come. When it is over all faults are, too, and all
  // processes that they stopped or killed are running.
  void disturb(std::chrono::nanoseconds time, const disturbances& what = {});

  // Since the beginning.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept;
  // Calls that then.
  void after(std::chrono::nanoseconds time, std::function<void()> what);

  // One thing happens; false: nothing is left to happen.
  bool step();
  void run_for(std::chrono::nanoseconds time);
  // Until it holds, looked at after each step; false: it does not within `longest`.
  bool run_until(const std::function<bool()>& holds,
                 std::chrono::nanoseconds longest = std::chrono::minutes{1});
  // Until nothing is on its way, nothing is planned by after() or disturb(), and all that was accepted
  // is delivered or reported.
  bool run_until_idle(std::chrono::nanoseconds longest = std::chrono::minutes{1});

 private:
  using beginning = std::function<std::shared_ptr<void>(atbus::node&)>;
  struct state;

  void begin(bus_id id, const process_options& options, beginning what);

  std::unique_ptr<state> state_;
};

// Runs `holds` with simulations of the seeds 1, 2, ... `count`; with ATBUS_SIMULATION_SEED set, of that
// seed alone. The first seed that it returns false for, which is printed with how to run it again.
[[nodiscard]] std::optional<std::uint64_t> first_failing_seed(
    std::uint64_t count, const std::function<bool(simulation&)>& holds);

}  // namespace atbus::testing
