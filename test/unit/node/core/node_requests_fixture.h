// Two parties of which the first asks and the second answers.
#pragma once

#include "unit/node/simulated_party.h"

namespace atbus::detail {

class NodeRequests : public ::testing::Test {
 protected:
  // What who asked was told.
  struct told {
    int times = 0;
    status how;
    bus_id source;
    std::string text;
    [[nodiscard]] auto write() {
      return [this](const response& r) {
        ++times;
        how = r.how();
        source = r.source();
        text = r.text();
      };
    }
  };

  NodeRequests() {
    two.node.user().on_request(7, [this](request& r) {
      handled.emplace_back(r.text());
      if (on_request)
        on_request(r);
    });
  }
  void connect() {
    one.connect(2);
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    net.run_for(5ms);
  }
  request_handle ask(std::string_view text, told& answer, std::chrono::nanoseconds timeout = 1s,
                     std::uint32_t type = 7) {
    const request_handle sent = one.node.user().request(2, type, text, timeout, answer.write());
    one.node.wake();
    return sent;
  }
  // Requests of node 2's are not answered until the test does.
  void keep() {
    on_request = [this](request& r) { kept.push_back(r.detach()); };
  }
  static void expect(const told& answer, errc how, std::string_view text = {}) {
    EXPECT_EQ(answer.times, 1);
    EXPECT_EQ(answer.how.code(), how) << name(answer.how.code());
    EXPECT_EQ(answer.text, text);
  }

  simulated_network net{1};
  party one{net, 1};
  party two{net, 2};
  std::vector<std::string> handled;
  std::vector<request> kept;
  std::function<void(request&)> on_request;
};

}  // namespace atbus::detail
