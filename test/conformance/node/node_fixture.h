// Two nodes in one process, through each kind of address.
#pragma once

#include <unistd.h>

#include "atbus/atbus.hpp"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {

struct node_kind {
  const char* name;
  bool tcp;
  std::string (*address)(const std::string& directory, const std::string& unique);
};

inline std::vector<node_kind> node_kinds() {
  using text = const std::string&;
  return {
      {"mem", false, [](text, text unique) { return "mem://" + unique; }},
      {"shm", false, [](text, text unique) { return "shm://" + unique; }},
      {"unix_path", false, [](text directory, text) { return "unix://" + directory + "/node"; }},
      {"unix_abstract", false, [](text, text unique) { return "unix://@" + unique; }},
      {"unix_socket", false, [](text, text unique) { return "unix://@" + unique + "?shm=false"; }},
      {"ipv4", true, [](text, text) { return std::string{"ipv4://127.0.0.1:0"}; }},
      {"ipv6", true, [](text, text) { return std::string{"ipv6://[::1]:0"}; }},
  };
}

// Those that go through the kernel.
inline std::vector<node_kind> socket_kinds() {
  std::vector<node_kind> kinds = node_kinds();
  std::erase_if(kinds, [](const node_kind& kind) {
    return !kind.tcp && std::string{kind.name} != "unix_socket";
  });
  return kinds;
}

// What a node was told, in order.
struct node_log {
  std::vector<std::string> messages;
  std::vector<std::string> marked;  // of these, redelivered
  std::vector<std::pair<std::uint64_t, errc>> undelivered;
  std::vector<errc> reasons;  // of these
  std::vector<endpoint_event> events;
  std::vector<std::string> lines;
  int writable = 0;

  void listen_to(node& to) {
    to.on_message([this](const message& m) {
      messages.emplace_back(m.text());
      if (m.redelivered())
        marked.emplace_back(m.text());
    });
    to.on_undelivered([this](const atbus::undelivered& u) {
      undelivered.emplace_back(u.number(), u.outcome());
      reasons.push_back(u.reason());
    });
    to.on_endpoint([this](const endpoint&, endpoint_event event) { events.push_back(event); });
    to.on_writable([this](bus_id) { ++writable; });
    to.on_log([this](std::string_view line) { lines.emplace_back(line); });
  }
  [[nodiscard]] bool saw(endpoint_event event) const {
    return std::find(events.begin(), events.end(), event) != events.end();
  }
};

class NodeFixture : public ::testing::TestWithParam<node_kind> {
 protected:
  ~NodeFixture() override { forget_names(); }
  // A named inbox outlives its node.
  static void forget_names() {
    unlink(("/dev/shm/atbus-segment." + unique()).c_str());
    unlink(("/dev/shm/atbus-bell." + unique()).c_str());
  }
  [[nodiscard]] static std::string unique() {
    return "atbus-node-test-" + std::to_string(getpid());
  }

  static constexpr std::string_view secret = "a secret of the tests";

  [[nodiscard]] node_options options() const {
    node_options made;
    made.retry(std::chrono::milliseconds{5}, std::chrono::milliseconds{50});
    if (GetParam().tcp)
      made.token(secret);
    return made;
  }
  [[nodiscard]] std::string address() const {
    return GetParam().address(directory_.path(), unique());
  }

  // Turns all of them until `done`; false after a time that only a hung program needs.
  static bool turn(std::initializer_list<node*> all, const std::function<bool()>& done) {
    const auto end = now() + std::chrono::seconds{20};
    while (!done()) {
      if (now() > end)
        return false;
      for (node* one : all)
        one->poll();
    }
    return true;
  }

  // `first` (1) and `second` (2), which listens; registered with each other.
  void connect_both() { connect_both(options(), options()); }
  void connect_both(const node_options& of_first, const node_options& of_second) {
    first.emplace(1, of_first);
    second.emplace(2, of_second);
    first_log.listen_to(*first);
    second_log.listen_to(*second);
    ASSERT_TRUE(second->listen(address()));
    ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
    ASSERT_TRUE(turn({&*first, &*second}, [&] {
      return first_log.saw(endpoint_event::connected) && second_log.saw(endpoint_event::connected);
    }));
  }

  scratch_directory directory_;
  std::optional<node> first;
  std::optional<node> second;
  node_log first_log;
  node_log second_log;
};

}  // namespace atbus::test
