// Nodes of a simulated network that publish and subscribe, each on a host of its own, and what subscribers were told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "atbus/topic.hpp"
#include "test.h"

namespace atbus {

class Topics : public ::testing::Test {
 protected:
  // What one subscriber was told, in order: "7: text", and "7 missed 3".
  using record = std::vector<std::string>;

  static subscription_options into(record& all, subscription_options made = {}) {
    made.on_missed = [&all](bus_id from, std::uint64_t messages) {
      all.push_back(from.to_string() + " missed " + std::to_string(messages));
    };
    return made;
  }
  static auto writer(record& all) {
    return [&all](const topic_message& m) {
      all.push_back(m.publisher().to_string() + ": " + std::string{m.text()});
    };
  }
  static std::string says(std::uint64_t id, const std::string& text) {
    return bus_id{id}.to_string() + ": " + text;
  }
  static std::string missed(std::uint64_t id, std::uint64_t messages) {
    return bus_id{id}.to_string() + " missed " + std::to_string(messages);
  }
  static std::string address_of(std::uint64_t id) {
    return "ipv4://10.0.0.1:" + std::to_string(7000 + id);
  }

  // Each on a host of its own.
  testing::process_options host(std::uint64_t id, node_options options = {}) {
    return {.node = options.allow_unauthenticated(), .host = static_cast<unsigned>(id)};
  }
  void start(std::uint64_t id, node_options options = {}, std::function<void(node&)> program = {}) {
    sim.start(
        id,
        [id, program = std::move(program)](node& n) {
          ASSERT_TRUE(n.listen(address_of(id)));
          if (program)
            program(n);
        },
        host(id, options));
  }
  void subscribe(std::uint64_t id, const std::string& name = "news",
                 subscription_options how = {}) {
    ASSERT_TRUE(sim.node(id).subscribe(name, writer(got[id]), into(got[id], how)));
  }
  // A root 0x100 with relays 0x110, 0x120, ... and leaves below these.
  void start_root() { start(0x100, node_options{}.children("0x100/56")); }
  void start_relay(std::uint64_t id) {
    start(id, node_options{}.parent(address_of(0x100)).children(bus_id{id}.to_string() + "/60"));
  }
  void start_leaf(std::uint64_t id) {
    start(id, node_options{}.parent(address_of(id & ~std::uint64_t{15})));
  }
  void settle() { sim.run_for(std::chrono::seconds{2}); }

  testing::simulation sim{1};
  std::map<std::uint64_t, record> got;
};

}  // namespace atbus
