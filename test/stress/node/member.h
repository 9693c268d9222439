// One of two nodes that send to each other while the test kills, stops and cuts off.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "atbus/atbus.hpp"
#include "ledger.h"
#include "shared_memory.h"

namespace atbus::test {

// What both members of a round do; equal for all their lives.
struct member_plan {
  bus_id id;
  std::vector<std::string> listens;
  std::string dials;  // "": it does not
  node_options options;
};

// Orders of the test; they outlive those who obey.
struct member_orders {
  std::array<shared_counter, 2> leave;   // how often: end in an orderly way and come back
  std::array<shared_counter, 2> finish;  // the same, for good
  shared_counter quiet;                  // nothing new is sent
  shared_counter begun;                  // processes; by each
};

class member {
 public:
  member(const std::array<member_plan, 2>& plans, std::uint32_t role, ledger& book,
         member_orders& orders, std::uint64_t seed)
      : plans_(plans), role_(role), book_(book), orders_(orders), random_(seed) {}

  // The body of its process.
  int run();

 private:
  [[nodiscard]] std::uint32_t pick(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_() % below);
  }
  [[nodiscard]] bool finishing() const { return orders_.finish[role_].get() != 0; }
  void live();
  void send_some(node& from, std::uint32_t life);
  status send_one(node& from, std::uint32_t life);
  void handled(std::uint32_t life, const message& what);

  const std::array<member_plan, 2>& plans_;
  std::uint32_t role_;
  ledger& book_;
  member_orders& orders_;
  std::mt19937_64 random_;
};

}  // namespace atbus::test
