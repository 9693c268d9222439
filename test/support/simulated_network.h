// A network, a clock and processes that exist in one thread only: the node runs on them as it is, and
// all that happens follows from a seed.
//
// What is simulated: links of two sorts. Those that keep (sockets): messages lie in a queue until they
// are released, leave it for a kernel that holds so many bytes, travel, and are handled when the
// other end polls; an end of the link may lose any suffix of what was under way, and may be seen by
// both ends, by one or by none. And lanes, where a message that was committed is there, and its
// handling is the acknowledgement.
//
// Not for several threads. Nothing here knows of a test framework.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "atbus/core/clock.hpp"
#include "node/link.h"
#include "node/node_core.h"
#include "node/random_source.h"

namespace atbus::detail {

class simulated_transport;
class simulated_link;
struct simulated_wire;

// What holds for links that are made, and messages that are sent, from now on.
struct network_conditions {
  std::chrono::nanoseconds delay_min = std::chrono::microseconds{50};
  std::chrono::nanoseconds delay_max = std::chrono::microseconds{500};
  std::size_t kernel_holds = 64 * 1024;  // bytes under way, each direction of a link
  std::size_t queue_size = 64 * 1024;    // bytes that data may fill
  std::size_t control_reserve = 16 * 1024;
  std::size_t message_limit = 64 * 1024 + message_head_size;
  bool refuses = false;   // connections are refused,
  bool swallows = false;  // or get no answer
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
};

// Which ends of a link see that it ends.
enum class seen_by : std::uint8_t { both, one, none };

class simulated_network {
 public:
  explicit simulated_network(std::uint64_t seed);
  ~simulated_network();

  network_conditions conditions;

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return clock_.now(); }
  [[nodiscard]] const clock_source& clock() const noexcept { return clock_; }
  // The seed's next number, below `limit`.
  std::uint64_t draw(std::uint64_t limit) { return random_() % limit; }
  std::chrono::nanoseconds draw_delay();

  void at(std::chrono::nanoseconds when, std::function<void()> what);
  void run_until(std::chrono::nanoseconds when);
  void run_for(std::chrono::nanoseconds time) { run_until(now() + time); }
  // Until it holds, looking after each thing that happens; false: it does not within `longest`.
  bool run_until(const std::function<bool()>& holds, std::chrono::nanoseconds longest);

  // Links that keep, are open and have both their ends.
  [[nodiscard]] std::size_t links() const;
  // Cuts the nth of them; what is under way each way is lost from a random message on. Within a host
  // both ends see it.
  void cut(std::size_t nth, seen_by who);
  [[nodiscard]] link_kind kind_of(std::size_t nth) const;

 private:
  friend class simulated_transport;
  friend class simulated_link;

  struct event {
    std::chrono::nanoseconds when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const event& other) const noexcept {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  bool step(std::chrono::nanoseconds until);
  [[nodiscard]] std::vector<std::shared_ptr<simulated_wire>> whole() const;

  manual_clock clock_;
  std::mt19937_64 random_;
  std::priority_queue<event> events_;
  std::uint64_t order_ = 0;
  std::map<std::string, simulated_transport*, std::less<>> listeners_;
  std::vector<std::weak_ptr<simulated_wire>> wires_;
  std::uint64_t ports_ = 0;
};

class simulated_random final : public random_source {
 public:
  explicit simulated_random(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) noexcept override {
    for (std::byte& one : bytes)
      one = static_cast<std::byte>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

// The ends of links of one process. kind: of tcp and unix links, which keep; mem and shm are lanes.
class simulated_transport final : public transport {
 public:
  // `wake` is called when there is something to poll for.
  simulated_transport(simulated_network& net, std::function<void()> wake);
  ~simulated_transport() override;

  void start(const node_life& self, link_events& events) override;
  result<std::string> listen(const address& at) override;
  result<link*> connect(const address& to) override;
  void close() noexcept override;
  std::size_t poll(const poll_limits& limits) override;
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
  friend class simulated_link;
  friend struct simulated_wire;

  simulated_link& add(std::shared_ptr<simulated_wire> wire, std::size_t end);
  void erase(simulated_link* gone);
  [[nodiscard]] bool is_here(const simulated_link* one) const noexcept;

  simulated_network& net_;
  std::function<void()> wake_;
  link_events* events_ = nullptr;
  bool closed_ = false;
  bool polling_ = false;
  std::vector<std::unique_ptr<simulated_link>> links_;
  std::vector<std::unique_ptr<simulated_link>> ended_;  // while polling
};

// A process with a node in it. It is polled when something comes and when its timers are due.
class simulated_node {
 public:
  // `prepare` sets its handlers, listens and connects.
  simulated_node(simulated_network& net, bus_id id, const node_options& options, host_identity host,
                 const std::function<void(node_core&)>& prepare = {});
  ~simulated_node();

  [[nodiscard]] node_core& core() noexcept { return *core_; }
  [[nodiscard]] simulated_transport& channels() noexcept { return *channels_; }
  // What a verb has queued leaves with the next poll: that comes soon.
  void wake() { plan(net_.now() + net_.draw_delay() / 16); }
  // Stops as SIGSTOP does it, until then.
  void stop_until(std::chrono::nanoseconds when);
  status send(bus_id to, std::uint32_t type, bytes_view bytes);

  poll_limits limits{};
  std::uint64_t polls = 0;

 private:
  void plan(std::chrono::nanoseconds when);
  void poll();

  simulated_network& net_;
  simulated_random random_;
  std::unique_ptr<simulated_transport> channels_;
  std::unique_ptr<node_core> core_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::chrono::nanoseconds planned_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds stopped_until_{0};
};

}  // namespace atbus::detail
