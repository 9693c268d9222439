// A simulated network, clock and processes in one thread. Unmodified nodes run on them, and a seed determines
// everything that happens.
//
// What is simulated: links of two sorts. Those that keep (sockets): messages lie in a queue until they
// are released, leave it for a kernel that holds so many bytes, travel, and are handled when the
// other end polls; an end of the link may lose any suffix of what was under way, and may be seen by
// both ends, by one or by none. And lanes, where a message that was committed is there, and its
// handling is the acknowledgement. Those of shm:// outlive the process that reads them
// (simulated_inbox.h).
//
// Not for several threads. Nothing here knows of a test framework.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/testing.hpp"
#include "core/node_instance.h"
#include "node/link/link.h"
#include "protocol/handshake.h"
#include "testing/node_events.h"
#include "testing/simulated_action.h"

namespace atbus::detail {

class simulated_transport;
class simulated_link;
struct simulated_inbox;
struct simulated_wire;

using testing::network_conditions;
using testing::seen_by;

// What disturbs a network for a while, beside its conditions: a program may change those meanwhile.
struct network_faults {
  std::multiset<std::chrono::nanoseconds> delays;  // how far above delay_min
  unsigned refusals = 0;
};

// Looks on while nodes use their links, for tests. Uses neither.
class link_watcher {
 public:
  // An end of a link, and who has it and the other one. A link that a successor answers has another number then.
  struct place {
    std::uint64_t link = 0;
    std::size_t end = 0;  // 0: dialled, 1: accepted
    const simulated_transport* process = nullptr;
    node_instance by;           // as it says
    node_instance other;        // none as long as nobody has accepted it
    bool is_inherited = false;  // the successor of the reader finds what is in it
  };

  // A message is in the link.
  virtual void committed(const place& at, bytes_view message) = 0;
  // The other end has handled it, as this one knows.
  virtual void released(const place& at, bytes_view message) = 0;
  // Its node takes it back from a lost link. outcome_unknown: it may have arrived.
  virtual void taken_back(const place& at, bytes_view message, errc fate) = 0;
  // The reader is gone; what is in the link waits for its successor.
  virtual void left_behind(const place& at) = 0;

 protected:
  ~link_watcher() = default;
};

class simulated_network {
 public:
  explicit simulated_network(std::uint64_t seed);
  ~simulated_network();

  network_conditions conditions;
  network_faults faults;
  std::function<void()> before_step;  // if there is one
  link_watcher* watcher = nullptr;    // none, or one that outlives the nodes

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return clock_.now(); }
  [[nodiscard]] const clock_source& clock() const noexcept { return clock_; }
  // The seed's next number, below `limit`.
  std::uint64_t draw(std::uint64_t limit) { return random_() % limit; }
  std::chrono::nanoseconds draw_delay();
  [[nodiscard]] bool refuses() const noexcept { return conditions.refuses || faults.refusals != 0; }

  // Runs an action at that time.
  template <class What>
  void at(std::chrono::nanoseconds when, What what) {
    ++under_way_;
    push(when, false).set(std::move(what));
  }
  // As above, for a timer: an action that only waits, without anything under way.
  template <class What>
  void timer(std::chrono::nanoseconds when, What what) {
    push(when, true).set(std::move(what));
  }
  // How many things are under way.
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_; }

  // The next thing happens, if it does until then.
  bool step(std::chrono::nanoseconds until);
  // How many of these are under way, each within what the one before has called.
  [[nodiscard]] unsigned depth() const noexcept { return depth_; }
  void run_until(std::chrono::nanoseconds when);
  void run_for(std::chrono::nanoseconds time) { run_until(moment_after(now(), time)); }
  // Until it holds, looking after each thing that happens; false: it does not within `longest`.
  bool run_until(const std::function<bool()>& holds, std::chrono::nanoseconds longest);

  // Links that keep, are open and have both their ends.
  [[nodiscard]] std::size_t links() const;
  // Links that were cut, and an end of theirs has not noticed.
  [[nodiscard]] bool has_unnoticed_cuts() const;
  // Cuts the nth of them; what is under way each way is lost from a random message on. Within a host
  // both ends see it.
  void cut(std::size_t nth, seen_by who);
  // All of them between two nodes.
  void cut(bus_id one, bus_id other, seen_by who);
  // Silently blocks TCP between the two until they are joined.
  void separate(bus_id one, bus_id other);
  void join(bus_id one, bus_id other) { separated_.erase(pair_of(one, other)); }
  [[nodiscard]] link_kind kind_of(std::size_t nth) const;

 private:
  friend class simulated_transport;
  friend class simulated_link;
  friend class simulated_dispatch;

  struct event {
    std::chrono::nanoseconds when;
    std::uint64_t order;
    std::uint32_t what;  // its place in actions_
    bool is_timer;
    bool operator<(const event& other) const noexcept {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  using id_pair = std::pair<bus_id, bus_id>;
  [[nodiscard]] static id_pair pair_of(bus_id one, bus_id other) {
    return std::minmax({one, other});
  }
  void cut(simulated_wire& wire, seen_by who);
  [[nodiscard]] std::vector<std::shared_ptr<simulated_wire>> whole() const;
  [[nodiscard]] std::vector<std::shared_ptr<simulated_wire>> between(id_pair nodes) const;
  [[nodiscard]] simulated_action& push(std::chrono::nanoseconds when, bool is_timer);
  void remember(const std::shared_ptr<simulated_wire>& wire);

  manual_clock clock_;
  std::mt19937_64 random_;
  std::vector<event> events_;  // a heap, the next one in front
  std::deque<simulated_action> actions_;
  std::vector<std::uint32_t> free_actions_;  // places of those that have happened
  std::uint64_t order_ = 0;
  std::size_t under_way_ = 0;
  unsigned depth_ = 0;
  // By address, and by the host where that means something on one only.
  using place = std::pair<std::string, host_identity>;
  std::map<place, simulated_transport*> listeners_;
  std::map<place, std::unique_ptr<simulated_inbox>> inboxes_;  // with a name
  std::set<id_pair> separated_;
  std::vector<std::weak_ptr<simulated_wire>> wires_;
  std::size_t wires_at_clearing_ = 0;
  std::uint64_t ports_ = 0;
  std::uint64_t links_added_ = 0;
};

struct simulated_process {
  host_identity host{};
  std::size_t message_limit = 64 * 1024;
  std::size_t queue_size = 128 * 1024;  // bytes of data in the queue of a link
};

// The ends of links of one process: tcp and unix links, which keep; mem and shm are lanes.
class simulated_transport final : public transport {
 public:
  // `wake` is called when there is something to poll for.
  simulated_transport(simulated_network& net, const simulated_process& of,
                      std::function<void()> wake);
  ~simulated_transport() override;

  void start(const node_instance& self, link_events& events) override;
  result<std::string> listen(const address& at) override;
  result<link*> connect(const address& to) override;
  void close() noexcept override;
  std::size_t poll(const poll_limits& limits) override;
  void end_poll() noexcept override { poll_ends_ = true; }
  void flush() noexcept override;
  [[nodiscard]] int descriptor() const noexcept override { return -1; }
  bool prepare_sleep() override;
  void finish_sleep() override {}
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override {
    return std::chrono::nanoseconds{-1};
  }

  // What other hosts hear of this process ends, and they do not hear of that.
  void fall_silent() noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<simulated_link>>& links() const { return links_; }

 private:
  friend class simulated_network;
  friend class simulated_dispatch;
  friend class simulated_link;
  friend struct simulated_inbox;
  friend struct simulated_wire;

  // Where who dials this address looks for a listener.
  [[nodiscard]] simulated_network::place place_of(const address& at) const;
  simulated_link& add(std::shared_ptr<simulated_wire> wire, std::size_t end);
  void erase(simulated_link* gone);
  [[nodiscard]] simulated_inbox& inbox_at(const simulated_network::place& where);
  // Something is to be told of it.
  void look_at(simulated_link& due);
  // Something in it may leave.
  void flush_later(simulated_link& written);

  simulated_network& net_;
  const simulated_process process_;
  std::function<void()> wake_;
  bus_id self_;
  node_instance instance_;
  std::optional<node_events> events_;
  bool closed_ = false;
  bool polling_ = false;
  bool poll_ends_ = false;
  std::vector<std::unique_ptr<simulated_link>> links_;
  std::vector<std::unique_ptr<simulated_link>> ended_;  // while polling
  std::vector<simulated_inbox*> inboxes_;               // those it holds
  // Only these are looked at, however many there are.
  std::vector<simulated_link*> due_;
  std::vector<simulated_link*> turn_;  // poll() is at these
  std::vector<simulated_link*> to_flush_;
  std::vector<simulated_link*> flushing_;  // flush() is at these
};

}  // namespace atbus::detail
