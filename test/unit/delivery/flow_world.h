// A sender's flow and the lives of its destination, joined by simulated paths: one short random
// run, checked against records of what really happened. fault() is what went wrong first.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "delivery/incoming_flow.h"
#include "delivery/outgoing_flow.h"
#include "delivery/session_table.h"
#include "delivery_model.h"

namespace atbus::test {

// What runs have seen, so that a test can tell that they saw all there is.
struct flow_sights {
  std::uint64_t delivered = 0;
  std::uint64_t delivered_by_answer = 0;  // the sender learnt of it when the next path opened
  std::uint64_t delivered_again = 0;      // marked, to a later incarnation
  std::uint64_t by_old_incarnation = 0;   // handled by one that has a successor
  std::uint64_t after_loss = 0;           // handled from a path that the sender had lost
  std::uint64_t not_delivered = 0;
  std::uint64_t unknown_given_up = 0;
  std::uint64_t unknown_by_death = 0;
  std::uint64_t unknown_by_forgetting = 0;
  std::uint64_t replaced = 0;  // paths, by another one
  std::uint64_t passed_over = 0;
};

class flow_world {
 public:
  flow_world(std::uint64_t seed, flow_sights& sights);

  void run();
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  static constexpr std::size_t most_incarnations = 5;

  // Of a path: a message, or {next, before} where numbers jump.
  struct item {
    std::uint64_t number = 0;  // what the test knows; 0: an announcement
    std::uint64_t next = 0;
    std::uint64_t before = 0;
    bool marked = false;
  };
  // released <= handled <= arrives, written <= items
  struct path {
    std::size_t instance = 0;
    detail::flow_position answer;
    std::vector<item> items;
    std::size_t released = 0;
    std::size_t handled = 0;
    std::size_t written = 0;
    std::uint64_t number = 0;
    bool lost = false;  // for the sender; what was written may go on arriving
  };
  using path_pointer = std::shared_ptr<path>;

  struct destination {
    detail::node_instance instance;
    detail::session_table sessions{1};
    detail::incoming_flow flow;
    path_pointer from;  // none: the flow is in the table
  };

  // What the model does not know of a message.
  struct record {
    std::size_t bytes = 0;
    std::chrono::nanoseconds deadline{0};
  };

  [[nodiscard]] std::size_t pick(std::size_t most);
  void check(bool holds, const char* what);
  record& of(std::uint64_t number) { return records_[number - 1]; }

  void step();
  // The sender.
  void send();
  [[nodiscard]] bool put(std::uint64_t number, bool marked);
  void pump();
  void write();
  void release();
  void lose(path_pointer& which);
  void hear();
  void expire();
  void drop_oldest();
  void abandon();
  void settled(const detail::held_message& message, errc reason);
  [[nodiscard]] detail::outgoing_flow::sink sink();
  // The destination.
  void dial();
  void handle(std::size_t instance);
  void deliver(std::size_t instance, const item& one);
  void let_go(destination& by);
  void meet_others();
  void restart();

  void finish();
  void compare();

  std::mt19937_64 random_;
  flow_sights& sights_;
  std::string fault_;
  restart_policy policy_;
  std::chrono::nanoseconds now_{1};
  delivery_model model_;
  std::vector<record> records_;
  detail::outgoing_flow out_;
  path_pointer current_;
  path_pointer answered_;  // the sender has not heard yet
  std::uint64_t paths_ = 0;
  bool resuming_ = false;
  std::deque<destination> lives_;  // the last one answers
};

}  // namespace atbus::test
