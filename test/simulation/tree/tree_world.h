// The processes of a tree on a simulated network, one for each node at a time: what they send, what
// becomes of it, and the faults. A ledger keeps the records; all else that is wrong goes there too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dice.h"
#include "kept_slot.h"
#include "ledger.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"
#include "topology.h"
#include "unproven_peer.h"

namespace atbus::detail {

class tree_world {
 public:
  tree_world(topology nodes, std::vector<node_options> options, std::uint64_t seed,
             std::ostream* trace);

  void start(std::size_t index);
  void start_all();
  [[nodiscard]] bool is_running(std::size_t index) const {
    return places_[index].process != nullptr && !places_[index].doomed;
  }
  [[nodiscard]] simulated_node& process(std::size_t index) { return *places_[index].process; }
  [[nodiscard]] const tree_node& node(std::size_t index) const { return nodes_[index]; }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }

  // A message of that size; whoever gets it answers `answers` times, to and fro.
  status send(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t answers);
  // Some messages are in slots that are committed later, until faults end.
  void keep_slots() { keeps_slots_ = true; }
  // From here on it is a fault if a node loses its parent, until faults end.
  void stay_calm() { is_calm_ = true; }
  void send_many(std::size_t from, std::size_t to, std::uint64_t count, std::uint64_t most);
  void broadcast(std::size_t from, const id_range& to, std::size_t size);
  void broadcast_many(std::size_t from, std::uint64_t count, std::uint64_t most);
  void disconnect(std::size_t from, std::size_t to, std::uint64_t count);
  void meet_unproven_peer(std::size_t index, std::size_t other, std::uint64_t calls,
                          std::chrono::nanoseconds until);
  // Another one begins after that time. `unseen`: nobody sees its end.
  void kill(std::size_t index, std::chrono::nanoseconds back_after, bool unseen);
  void stop(std::size_t index, std::chrono::nanoseconds until);
  void part_from_parent(std::size_t index, std::chrono::nanoseconds until);

  // Until then or until something is wrong.
  void run_until(std::chrono::nanoseconds when);
  // Whether all are running and have their parent, and nobody talks to one that is gone.
  [[nodiscard]] bool is_connected();
  [[nodiscard]] bool knows_its_children(std::size_t index) const;
  void connect(std::size_t from, std::size_t to);
  // Whoever is named with connect() is connected in the end.
  void check_wanted();
  // And all that was accepted is settled.
  [[nodiscard]] bool is_quiet();
  // Runs until it is quiet and returns how long that took; a fault if it takes too long.
  std::chrono::nanoseconds run_until_quiet(std::chrono::nanoseconds longest);

  // To be called when faults are over. Each of `probes` messages between two nodes arrives.
  void check_ways(std::size_t probes);
  // The same. Each of `probes` messages to an id that nobody has is refused or reported for want of a way.
  void check_nobody(std::size_t probes);
  // The same. A broadcast reaches all nodes of its range that take messages as long as it.
  void check_broadcasts(std::size_t probes);
  void check_idle();
  void check_memory();
  // All are running.
  void check_links(std::size_t to_each);
  void check_leaving();

  void note(const std::string& text);
  // Handlers do no more than answer from here on, and what is lost for want of a way is wrong.
  void end_faults() {
    faults_are_over_ = true;
    is_calm_ = false;
    keeps_slots_ = false;
  }

  simulated_network net;
  ledger book;
  test::dice draw;
  std::chrono::nanoseconds probes_took{0};  // the slowest

 private:
  // Where a node of some id runs: one process after another.
  struct place {
    std::unique_ptr<simulated_node> process;
    std::uint64_t incarnations = 0;
    bool doomed = false;           // it has been superseded
    std::set<std::uint64_t> owed;  // to whom on_writable is owed
    std::set<std::size_t> partners;
    std::set<std::size_t> wanted;      // of this process: whom it has named with connect()
    std::uint64_t unproven_links = 0;  // links of theirs
    kept_slot slot;                    // of this process, which outlives it
  };

  status send_to(std::size_t from, bus_id whom, std::uint64_t size, std::uint32_t answers,
                 delivery_policy policy = delivery_policy::report);
  [[nodiscard]] std::size_t limit_of(std::size_t index) const {
    return options_[index].message_limit();
  }
  [[nodiscard]] std::string name_of(bus_id id) const;
  // Whether a message may pass no more links than there are: whatever links there are, and if siblings
  // have none to each other.
  [[nodiscard]] bool is_too_far(std::size_t from, std::size_t to) const;
  [[nodiscard]] bool may_be_too_far(std::size_t from, std::size_t to) const;
  [[nodiscard]] bool is_gone(const endpoint& of) const;
  // Sends it, or keeps it in a slot.
  void send_or_keep(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t answers);
  // Commits it now, perhaps.
  void look_at_slot(std::size_t index, const node_core& core);
  void commit_slot(std::size_t index);
  void set_handlers(std::size_t index, node_core& core);
  void on_message(std::size_t index, node_core& core, const message& what);
  [[nodiscard]] std::size_t most_known(std::size_t index) const;
  void end_of(place& at);
  void start_later(std::size_t index, std::chrono::nanoseconds after);
  void bury_doomed();
  [[nodiscard]] std::uint64_t polls() const;

  const topology nodes_;
  const std::vector<node_options> options_;
  std::ostream* trace_;
  std::vector<place> places_;
  std::unordered_map<std::uint64_t, std::size_t> by_id_;
  struct caller {
    std::unique_ptr<unproven_peer> who;  // null: gone
    std::size_t whom;
    std::size_t links;
    std::chrono::nanoseconds forgotten_at;  // by whom it has called
  };
  std::vector<caller> unproven_peers_;
  bool faults_are_over_ = false;
  bool is_calm_ = false;
  bool keeps_slots_ = false;
  test::dice draw_slot_;  // apart: other scenarios are what they were
  bool is_deep_ = false;  // some nodes may be too far from each other
  std::set<std::pair<std::size_t, std::size_t>> named_;  // these may have a link of their own
  bool is_forgetful_ = false;  // some nodes do not remember what they had of others
};

}  // namespace atbus::detail
