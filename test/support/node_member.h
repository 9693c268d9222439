// One of some nodes that send to each other while the test kills, stops and cuts off.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"
#include "node_ledger.h"
#include "shared_memory.h"

namespace atbus::test {

// What a member of a round does; equal for all its lives.
struct member_plan {
  bus_id id;
  std::vector<std::string> listens;
  std::vector<std::pair<bus_id, std::string>> connects;
  node_options options;
  std::vector<std::uint32_t> partners;  // roles that it sends to
  bool requires_some = false;           // delivery_policy, now and then
  std::uint32_t longest_turn_us = 1100;
};

// Orders of the test; they outlive those who obey.
struct member_orders {
  std::array<shared_counter, most_roles> leave;   // how often: end in an orderly way and come back
  std::array<shared_counter, most_roles> finish;  // the same, for good; 1: before all others, 2
  shared_counter quiet;                           // nothing new is sent
  shared_counter roll_call;                       // but one required message to each other node
  shared_counter called;                          // members that have sent these
  shared_counter begun;                           // processes; by each
};

class node_member {
 public:
  node_member(const std::vector<member_plan>& plans, std::uint32_t role, node_ledger& book,
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
  void send_some(node& from, std::uint32_t instance);
  void call_the_roll(node& from, std::uint32_t instance);
  status send_one(node& from, std::uint32_t instance, std::uint32_t to, delivery_policy policy);
  void handled(std::uint32_t instance, const message& what);

  const std::vector<member_plan>& plans_;
  std::uint32_t role_;
  node_ledger& book_;
  member_orders& orders_;
  std::mt19937_64 random_;
  std::uint32_t called_ = 0;  // roles
};

}  // namespace atbus::test
