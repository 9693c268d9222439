// Nodes that send each other blobs, and at times more messages than there is room for, while their links and processes
// fail: two to four that are linked with each other, or a tree whose relays pass them on. What happens follows from a
// seed. Records outside the nodes say what became of each blob.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "topology.h"

namespace atbus::detail {

class blob_world {
 public:
  // Counts how often each outcome was told.
  blob_world(std::uint64_t seed, std::map<errc, std::uint64_t>& outcomes);

  // What is wrong; empty: nothing.
  std::string run();

 private:
  // What one process was told of a blob.
  struct reception {
    std::uint64_t taken = 0;
    bool refused = false;
    std::optional<status> ended;
  };
  // What became of one blob, as its sending process knows it.
  struct record {
    bus_id from;
    bus_id to;
    std::uint64_t sent_by = 0;  // incarnation
    std::uint64_t size = 0;
    std::uint64_t made = 0;  // bytes that the source has made
    int outcomes = 0;
    bool cancelled = false;
    blob_handle handle;
    std::map<std::uint64_t, reception> received_by;  // incarnations
  };
  struct paused_blob {
    bus_id at;
    std::uint64_t by = 0;  // incarnation
    blob_id id;
  };

  void start(const tree_node& which);
  void begin(node& n, const tree_node& self);
  void act();
  void send(node& n);
  void send_messages(bus_id from, std::uint64_t bursts);
  void cancel_one();
  void resume_one();
  void resume_all();
  void announced(node& n, incoming_blob& blob);
  void part_came(bus_id at, std::uint64_t number, std::uint64_t by, const blob_part& part);
  void ended(std::uint64_t number, const blob_outcome& how);
  void check_ended();

  [[nodiscard]] bus_id draw_id() { return nodes_[sim_.draw(nodes_.size())].id; }
  [[nodiscard]] bool lives(bus_id id, std::uint64_t incarnation);
  void fail(std::string what);
  void fail(std::uint64_t number, std::string_view what);

  std::map<errc, std::uint64_t>& outcomes_;
  std::string fault_;
  topology nodes_;
  bool is_tree_ = false;
  bool recovers_ = false;  // no receiver pauses any more
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, record> records_;
  std::vector<paused_blob> paused_;
  testing::simulation sim_;
};

}  // namespace atbus::detail
