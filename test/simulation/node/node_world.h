// The simulated nodes of a run: their processes, what happens to them, and the checks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "counting_allocator.h"
#include "kept_slot.h"
#include "ledger.h"
#include "repeating_peer.h"
#include "simulation/node/delivery_trace.h"
#include "simulation/node/scenario.h"
#include "testing/foreign_code.h"
#include "testing/simulated_link.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"
#include "unproven_peer.h"

namespace atbus::detail {

inline constexpr std::chrono::nanoseconds longest_recovery = 120s;
// Bytes, of each link.
inline constexpr std::size_t link_queue = 64 * 1024;
inline constexpr std::size_t control_reserve = 16 * 1024;
// Bytes, of what a link or a node adds to a message.
inline constexpr std::size_t most_overhead = 256;
inline constexpr bus_id first_repeating_peer{1000};

class node_world {
 public:
  node_world(const scenario& all, std::ostream* trace)
      : plan_(all),
        trace_(trace),
        net_(all.seed * 2 + 1),
        random_(all.seed),
        slot_random_(~all.seed) {
    places_.resize(all.nodes);
    usual_.queue_size = link_queue;
    if (all.crowded) {
      usual_.delay_max = 300ms;
      usual_.kernel_holds = 1000;
      usual_.queue_size = 5000;
    }
    net_.conditions = usual_;
    if (!all.starved)  // what is lost for want of memory is not told one by one
      net_.watcher = &steps_;
  }

  test::run_result run();

 private:
  // Where a node of some id runs: one process after another.
  struct place {
    std::unique_ptr<simulated_node> process;
    std::uint64_t incarnations = 0;
    bool doomed = false;  // its handler has ended it
    std::size_t message_limit = 0;
    std::uint64_t unproven_links = 0;  // links of theirs to any of its lives
    std::vector<bool> dials;
    std::set<std::uint64_t> owed;  // to whom on_writable is owed
    // Bytes that were accepted for each since there was a link.
    std::map<std::uint64_t, std::size_t> waiting;
    std::vector<std::string> more_addresses;
    bool opens_name = true;  // this process
    // Polls that still miss allocations, and how many each.
    std::uint64_t short_polls = 0;
    std::uint64_t misses = 1;
    kept_slot slot;  // of this process, which outlives it
  };

  [[nodiscard]] static bus_id id_of(std::size_t index) { return bus_id{index + 1}; }
  [[nodiscard]] static std::string address_of(std::size_t index, way to);
  void note(const std::string& text);
  void start(std::size_t index);
  void set_handlers(std::size_t index, node_core& core);
  void poll_short_of_memory(std::size_t index, simulated_node& of);
  void count_unreported();
  void on_message(std::size_t index, node_core& core, const message& what);
  void send(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t hops);
  void keep_slot(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t hops);
  // Commits it now, perhaps.
  void look_at_slot(std::size_t index, const node_core& core);
  void commit_slot(std::size_t index);
  void send_many(const scenario_event& how);
  void part(const scenario_event& how);
  void broadcast(std::size_t from, const id_range& to, std::size_t size);
  void broadcast_many(const scenario_event& how);
  [[nodiscard]] std::size_t draw_size(std::size_t from, std::size_t to, std::size_t most);
  void meet_unproven_peer(const scenario_event& how);
  void meet_repeating_peer(const scenario_event& how);
  void on_repeated(const node_core& core, const message& what);
  void check_violations();
  void check_broadcasts();
  void ask(std::size_t from, std::size_t to, std::uint64_t size);
  void on_command(node_core& core, std::chrono::nanoseconds born, command& asked);
  void check_waiting(std::size_t from, std::size_t to, std::size_t size);
  void check_memory();
  [[nodiscard]] bool is_connected(std::size_t from, std::size_t to);
  [[nodiscard]] bool has_link(std::size_t from, std::size_t to);
  void listen(std::size_t index, const std::string& address);
  void connect(std::size_t from, std::size_t to, way by);
  void disconnect(std::size_t from, std::size_t to, std::chrono::nanoseconds back_after);
  void end_of(std::unique_ptr<simulated_node>& process);
  void restart(const scenario_event& how);
  void overtake(const scenario_event& how);
  void stumble(const scenario_event& how);
  // At that time, or when the faults end; not if they have.
  void later(std::chrono::nanoseconds after, std::function<void()> what);
  void happen(const scenario_event& one);
  void bury_doomed();
  [[nodiscard]] bool is_quiet();
  void check_idle();
  void finish();
  std::uint64_t draw(std::uint64_t limit) { return random_() % limit; }

  const scenario& plan_;
  std::ostream* trace_;
  simulated_network net_;
  network_conditions usual_;
  std::mt19937_64 random_;
  std::mt19937_64 slot_random_;  // apart: other scenarios are what they were
  ledger book_;
  delivery_trace steps_{book_};
  std::vector<place> places_;
  std::vector<std::unique_ptr<simulated_node>> outliving_;
  std::vector<std::unique_ptr<unproven_peer>> unproven_peers_;
  std::vector<std::unique_ptr<repeating_peer>> repeating_peers_;
  std::uint64_t repeating_peers_met_ = 0;
  // The number of the last message that each process has had of each of them.
  std::map<std::array<std::uint64_t, 3>, std::uint32_t> had_of_repeating_peers_;
  bool faults_are_over_ = false;
  std::vector<command> unanswered_;
  std::vector<std::chrono::nanoseconds> deadlines_;  // of commands
  std::uint64_t calls_ = 0;                          // of broadcasts
  std::uint64_t calls_ended_ = 0;
  std::uint64_t commands_ = 0;
  std::uint64_t commands_ended_ = 0;
  std::chrono::nanoseconds recovery_{0};
};

}  // namespace atbus::detail
