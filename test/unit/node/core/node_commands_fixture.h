// Two parties of which the first asks and the second answers.
#pragma once

#include "unit/node/simulated_party.h"

namespace atbus::detail {

class NodeCommands : public ::testing::Test {
 protected:
  using words = std::vector<std::string>;
  // What who asked was told.
  struct told {
    int times = 0;
    status how;
    words values;
    [[nodiscard]] auto write() {
      return [this](status s, const command_reply& r) {
        ++times;
        how = s;
        values = r.values();
      };
    }
  };

  NodeCommands() {
    two.node.user().on_command([this](command& c) {
      handled.emplace_back(c.name());
      if (on_command)
        on_command(c);
    });
  }
  void connect() {
    one.connect(2);
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    net.run_for(5ms);
  }
  status ask(const words& what, told& answer, std::chrono::nanoseconds timeout = 1s) {
    const status sent = one.node.user().command(2, what, timeout, answer.write());
    one.node.wake();
    return sent;
  }
  // Commands of node 2's are not answered until the test does.
  void keep() {
    on_command = [this](command& c) { kept.push_back(c.detach()); };
  }
  void expect(const told& answer, errc how, const words& values = {}) {
    EXPECT_EQ(answer.times, 1);
    EXPECT_EQ(answer.how.code(), how) << name(answer.how.code());
    EXPECT_EQ(answer.values, values);
  }

  simulated_network net{1};
  party one{net, 1};
  party two{net, 2};
  words handled;
  std::vector<command> kept;
  std::function<void(command&)> on_command;
};

}  // namespace atbus::detail
