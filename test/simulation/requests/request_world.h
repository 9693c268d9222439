// Nodes that ask each other while their links and processes fail: two to four that are linked with each
// other, or a tree whose relays pass requests on. What happens follows from a seed. Records outside the
// nodes say what became of each request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "topology.h"

namespace atbus::detail {

class request_world {
 public:
  // Counts how often each outcome was told.
  request_world(std::uint64_t seed, std::map<errc, std::uint64_t>& outcomes);

  // What is wrong; empty: nothing.
  std::string run();

 private:
  // What became of one request, as its asking process knows it.
  struct question {
    bus_id from;
    bus_id to;
    std::uint64_t asked_by = 0;  // incarnation
    // The process that the asking one was connected to; 0: none. It has been asked about all earlier
    // requests before it gets this one.
    std::uint64_t asked_of = 0;
    std::chrono::nanoseconds asked_at{0};
    std::chrono::nanoseconds timeout{0};
    std::string text;
    int outcomes = 0;
    bool cancelled = false;
    request_handle handle;
    std::set<std::uint64_t> handled_by;  // incarnations
    std::set<std::uint64_t> replied_by;  // of these
  };
  struct kept {
    request what;
    std::uint64_t number = 0;
    std::uint64_t by = 0;  // incarnation
  };

  void start(const tree_node& which);
  void begin(node& n, const tree_node& self);
  void handle(node& n, request& r);
  [[nodiscard]] static std::string reply_to(std::uint64_t number, std::uint64_t by);
  void answer_one();
  void answer_all();
  question& make(node& from, bus_id to, std::chrono::nanoseconds timeout, std::uint64_t& number);
  void act();
  void ask(node& n, std::chrono::nanoseconds timeout);
  void cancel_one();
  void gather(node& n, std::chrono::nanoseconds timeout);
  // Its successor is there before much of what it had in hand is over.
  void restart_soon();
  void ended(std::uint64_t number, const response& r);
  void replied(std::uint64_t number, const response& r);
  // Of a process that is gone, of all requests that its successor was asked about, and after the faults.
  void check_asked_before(std::uint64_t number, std::uint64_t by);
  void check_in_hand();
  void check_ended();

  [[nodiscard]] bus_id draw_id() { return nodes_[sim_.draw(nodes_.size())].id; }
  // The process that the node is connected to; 0: none.
  [[nodiscard]] static std::uint64_t connected_to(const node& n, bus_id other);
  // Whether the process that asked lives.
  [[nodiscard]] bool is_here(const question& one);
  // A process that has ended has it in hand, and the one that has come after it is this one.
  [[nodiscard]] static bool is_left_by_another(const question& one, std::uint64_t now) {
    return one.outcomes == 0 && !one.cancelled && !one.handled_by.empty() &&
           !one.handled_by.contains(now);
  }
  void fail(std::string what);
  void fail(const question& one, std::string_view what);

  std::map<errc, std::uint64_t>& outcomes_;
  std::string fault_;
  topology nodes_;
  bool is_tree_ = false;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, question> questions_;
  std::uint64_t gathers_ = 0;
  std::uint64_t gathers_ended_ = 0;
  std::vector<kept> kept_;
  testing::simulation sim_;
};

}  // namespace atbus::detail
