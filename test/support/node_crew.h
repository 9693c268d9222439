// Nodes in processes of their own, with traffic between them, and what happens to them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "child_process.h"
#include "fault_proxy.h"
#include "node_ledger.h"
#include "node_member.h"
#include "reserved_port.h"

namespace atbus::test {

// No descriptors come through a proxy: only `lanes` has those of a Unix socket.
enum class way : std::uint8_t { shm, lanes, unix_socket, ipv4, ipv6, tcp_then_shm };

struct disturbances {
  std::uint64_t kills = 0;
  std::uint64_t stops = 0;
  std::uint64_t leaves = 0;
  std::uint64_t cuts = 0;
  std::uint64_t stalls = 0;

  disturbances& operator+=(const disturbances& other);
  [[nodiscard]] std::string text() const;
};

// Where a node listens, and the way there: of sockets, through a proxy.
struct entrance {
  entrance(way through, bus_id whose, const std::string& directory);

  std::vector<std::string> listens;
  std::string dials;
  std::optional<reserved_port> port;
  std::unique_ptr<fault_proxy> proxy;
};

// What it is made of; all by role.
struct crew_plan {
  std::deque<entrance> entrances;
  std::vector<member_plan> members;
  ledger_rules rules;
};

class node_crew {
 public:
  // Starts all of them.
  node_crew(crew_plan plan, std::mt19937_64& random);
  node_crew(const node_crew&) = delete;
  node_crew& operator=(const node_crew&) = delete;
  ~node_crew();

  // Disturbs them for a while.
  void disturb();
  // Stops it, or lets it go on.
  void toggle(std::uint32_t role);
  // Ends what disturbs them, and then all of them, in order. Returns "", or what is wrong.
  std::string settle();

  [[nodiscard]] node_ledger& book() noexcept { return book_; }
  [[nodiscard]] const disturbances& happened() const noexcept { return happened_; }

 private:
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(plan_.members.size());
  }
  [[nodiscard]] std::uint32_t pick(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_() % below);
  }
  void rest(std::uint32_t longest_us);
  void start(std::uint32_t role);
  void strike();
  void strike_network(fault_proxy& at);
  void kill_one(std::uint32_t role);
  [[nodiscard]] std::string finish();

  crew_plan plan_;
  std::mt19937_64& random_;
  node_ledger book_;
  shared<member_orders> orders_;
  std::vector<child_process> members_;
  std::uint32_t processes_ = 0;
  std::vector<bool> stopped_;
  disturbances happened_;
};

}  // namespace atbus::test
