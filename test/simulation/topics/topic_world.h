// Nodes that publish and subscribe while their links and processes fail: two to four that are linked with each
// other, or a tree whose relays pass copies on, in some of which two nodes have a link of their own too. Links also
// end with a goodbye, by nodes that stay. What happens follows from a seed. Records outside the nodes say what was
// published, and what each subscriber was told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "topology.h"

namespace atbus::detail {

// Of all runs together: a run that shows nothing is none.
struct topic_counts {
  std::uint64_t messages = 0;
  std::uint64_t missed = 0;
  std::uint64_t redelivered = 0;
  std::uint64_t blocked = 0;
  std::uint64_t standing = 0;  // that standing subscriptions have had or missed
};

class topic_world {
 public:
  topic_world(std::uint64_t seed, topic_counts& counts);

  // What is wrong; empty: nothing.
  std::string run();

 private:
  // A publisher's process: its bus id and its incarnation.
  using publisher = std::pair<bus_id, std::uint64_t>;
  // What one subscription knows of one publisher.
  struct progress {
    std::uint64_t all = 0;                        // that came, or were missed
    std::uint64_t incarnation = 0;                // of whom the last message was
    std::map<std::uint64_t, std::uint64_t> last;  // by incarnation
    std::uint64_t missed = 0;                     // since then
  };
  struct subscription {
    std::map<bus_id, progress> of;
  };
  struct process {
    unsigned starts = 0;
    node* here = nullptr;
    bool stands = false;  // its subscription to "b" goes on from before the faults
    std::map<std::string, std::unique_ptr<topic>> topics{};
    std::map<std::string, subscription> subscriptions{};
  };

  void start(const tree_node& which);
  void begin(node& n, const tree_node& self);
  void act();
  void publish(process& by, const std::string& name);
  void subscribe(process& by, const std::string& name);
  void take(bus_id to, std::uint64_t incarnation, const topic_message& m);
  void missed(bus_id to, const std::string& name, bus_id from, std::uint64_t messages);
  // Nothing has been published yet: what is published to "b" from here on is owed to those that have subscribed.
  void note_standing();
  // That some links are ended by a goodbye, and their nodes stay.
  void end_links(process& by);
  // Of each stream that has begun since, a standing subscription has all, or has missed it.
  void check_standing();
  // Nothing is under way: each subscriber knows of each message that it has it, or has missed it.
  void check_whole(const std::string& name);
  // Each publishes once more, and each subscriber gets that.
  void check_last();
  [[nodiscard]] bool has_two_ways() const noexcept { return two_ways_.first != two_ways_.second; }
  [[nodiscard]] bus_id draw_id() { return nodes_[sim_.draw(nodes_.size())].id; }
  [[nodiscard]] std::string draw_name() { return sim_.draw(2) == 0 ? "a" : "b"; }
  void fail(std::string what);

  topic_counts& counts_;
  std::string fault_;
  topology nodes_;
  bool is_tree_ = false;
  // Of a tree: two that are peers of each other too; the same: there are none.
  std::pair<std::size_t, std::size_t> two_ways_{};
  std::map<bus_id, process> processes_;
  std::map<bus_id, std::chrono::nanoseconds> begins_;  // when it first publishes to "b"
  std::map<std::pair<publisher, std::string>, std::uint64_t> published_;
  // Which processes of a subscriber have handled a message.
  std::map<std::tuple<bus_id, publisher, std::string, std::uint64_t>, std::set<std::uint64_t>>
      handled_;
  testing::simulation sim_;
};

}  // namespace atbus::detail
