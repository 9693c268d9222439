// What a handler of an event does right before a message loses no message.
#include <stdexcept>

#include "atbus/atbus.hpp"
#include "test.h"

namespace atbus {
namespace {

// With a limit of time that each event uses up.
TEST(EventsWithoutEnd, LeaveTimeForMessages) {
  const node_options options = node_options{}.token("a secret of sixteen bytes");
  node from{1, options};
  node to{2, options};
  ASSERT_TRUE(from.listen("mem://events-without-end"));
  ASSERT_TRUE(to.connect(1, from.addresses().front()));
  std::size_t got = 0;
  to.on_message([&](const message&) { ++got; });
  std::size_t calls = 0;
  std::function<void(status)> again = [&](status) {
    ++calls;
    for (const auto end = now() + 200us; now() < end;) {
    }
    (void)to.on_ready(1, 30s, again);  // it is refused when the node has closed
  };
  EXPECT_TRUE(to.on_ready(1, 30s, again));
  const auto end = now() + 30s;
  while (calls == 0 && now() < end) {
    from.poll();
    to.poll();
  }
  ASSERT_NE(calls, 0U);
  for (int i = 0; i != 100; ++i)
    EXPECT_TRUE(from.send(2, 0, "text"));
  while (got != 100 && now() < end) {
    from.poll();
    to.poll({.time = 100us});
  }
  EXPECT_EQ(got, 100U);
  to.close();  // which makes the last call
}

struct way {
  const char* name;
  const char* address;
};

class EventBeforeMessage : public ::testing::TestWithParam<way> {
 protected:
  // A node that sends five messages as soon as it is connected.
  void SetUp() override {
    ASSERT_TRUE(from.listen(GetParam().address));
    from.on_endpoint([this](const endpoint&, endpoint_event event) {
      for (std::uint32_t type = 1; event == endpoint_event::connected && type <= 5; ++type)
        EXPECT_TRUE(from.send(2, type, "hello"));
    });
    from.on_undelivered([this](const undelivered& what) { not_handled.push_back(what.type()); });
    to.on_message([this](const message& m) { got.push_back(m.type()); });
    to.on_endpoint([this](const endpoint&, endpoint_event event) {
      if (event == endpoint_event::connected && !std::exchange(has_come, true))
        at_first();
    });
    ASSERT_TRUE(to.connect(1, from.addresses().front()));
  }
  // What the handlers of `to` have thrown is counted.
  void turn() {
    from.poll();
    (void)from.wait(1ms);
    try {
      to.poll();
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  template <class Done>
  [[nodiscard]] bool until(Done done) {
    for (const auto deadline = now() + 30s; !done() && now() < deadline;)
      turn();
    return done();
  }
  // Each of the five was handled, or is reported, and none of them both.
  void expect_an_outcome_of_each() {
    // A disconnected node is not dialled again, so what it has not handled is reported by the end.
    ASSERT_TRUE(until([&] { return has_come; }));
    const auto a_moment = now() + 20ms;
    ASSERT_TRUE(until([&] { return now() > a_moment; }));
    (void)from.shutdown(100ms);
    std::vector<std::uint32_t> all = got;
    all.insert(all.end(), not_handled.begin(), not_handled.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
  }

  const node_options options = node_options{}.token("a secret of sixteen bytes");
  node from{1, options};
  node to{2, options};
  std::function<void()> at_first;  // in `to`, when it is connected for the first time
  bool has_come = false;
  std::vector<std::uint32_t> got;
  std::vector<std::uint32_t> not_handled;
  int caught = 0;
};

INSTANTIATE_TEST_SUITE_P(Through, EventBeforeMessage,
                         ::testing::Values(way{"Tcp", "ipv4://127.0.0.1:0"},
                                           way{"Unix", "unix://@event-before-message"},
                                           way{"Shm", "shm://"},
                                           way{"Mem", "mem://event-before-message"}),
                         [](const auto& tried) { return std::string{tried.param.name}; });

TEST_P(EventBeforeMessage, MayThrowAndTheMessageArrives) {
  at_first = [] { throw std::runtime_error{"of the handler"}; };
  ASSERT_TRUE(until([&] { return got.size() >= 5; }));
  EXPECT_EQ(got, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(caught, 1);
  expect_an_outcome_of_each();
}

TEST_P(EventBeforeMessage, MayDisconnectAndTheMessageIsReported) {
  at_first = [&] { EXPECT_TRUE(to.disconnect(1)); };
  expect_an_outcome_of_each();
  EXPECT_EQ(not_handled.size(), 5U);
}

TEST_P(EventBeforeMessage, MayDisconnectAndThrow) {
  at_first = [&] {
    EXPECT_TRUE(to.disconnect(1));
    throw std::runtime_error{"of the handler"};
  };
  expect_an_outcome_of_each();
  EXPECT_EQ(not_handled.size(), 5U);
  EXPECT_EQ(caught, 1);
}

TEST_P(EventBeforeMessage, MayCloseTheNodeAndTheMessageIsReported) {
  at_first = [&] { to.close(); };
  expect_an_outcome_of_each();
  EXPECT_EQ(not_handled.size(), 5U);
}

}  // namespace
}  // namespace atbus
