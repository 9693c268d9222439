// One round: two nodes in processes of their own, with traffic both ways, and what happens to them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "child_process.h"
#include "fault_proxy.h"
#include "ledger.h"
#include "member.h"
#include "reserved_port.h"
#include "scratch_directory.h"

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

// Where one of the two listens, and the way there: of sockets, through a proxy.
struct entrance {
  entrance(way through, bus_id whose, const std::string& directory);

  std::vector<std::string> listens;
  std::string dials;
  std::optional<reserved_port> port;
  std::unique_ptr<fault_proxy> proxy;
};

class one_round {
 public:
  one_round(way through, std::uint64_t seed);
  one_round(const one_round&) = delete;
  one_round& operator=(const one_round&) = delete;
  ~one_round();

  // All of it. Returns "", or what is wrong.
  std::string run();
  [[nodiscard]] ledger_figures figures() const { return book_.figures(); }
  [[nodiscard]] const disturbances& happened() const noexcept { return happened_; }

 private:
  [[nodiscard]] std::uint32_t pick(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_() % below);
  }
  void rest(std::uint32_t longest_us);
  ledger_rules choose(way through);
  void start(std::uint32_t role);
  void strike();
  void strike_network(fault_proxy& at);
  void kill_one(std::uint32_t role);
  void toggle(std::uint32_t role);

  scratch_directory directory_;
  std::mt19937_64 random_;
  std::array<bus_id, 2> ids_;
  std::array<entrance, 2> entrances_;
  std::array<member_plan, 2> plans_;
  ledger book_;
  shared<member_orders> orders_;
  std::array<child_process, 2> members_;
  std::uint32_t processes_ = 0;
  std::array<bool, 2> stopped_{};
  disturbances happened_;
};

}  // namespace atbus::test
