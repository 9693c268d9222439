// What a handler of an event does right before a message loses no message.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"

namespace atbus {
namespace {

using namespace std::chrono_literals;

class EventBeforeMessage : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Through, EventBeforeMessage,
                         ::testing::Values("ipv4://127.0.0.1:0", "mem://event-before-message"));

TEST_P(EventBeforeMessage, MayThrowAndTheMessageArrives) {
  const node_options options = node_options{}.token("a secret of sixteen bytes");
  node from{1, options};
  node to{2, options};
  std::vector<std::uint32_t> got;
  bool has_thrown = false;
  to.on_message([&](const message& m) { got.push_back(m.type()); });
  to.on_endpoint([&](const endpoint&, endpoint_event event) {
    if (event == endpoint_event::connected && !std::exchange(has_thrown, true))
      throw std::runtime_error{"of the handler"};
  });
  ASSERT_TRUE(from.listen(GetParam()));
  from.on_endpoint([&](const endpoint&, endpoint_event event) {
    for (std::uint32_t type = 1; event == endpoint_event::connected && type <= 5; ++type)
      EXPECT_TRUE(from.send(2, type, "hello"));
  });
  ASSERT_TRUE(to.connect(1, from.addresses().front()));
  int caught = 0;
  const auto turn = [&] {
    from.poll();
    try {
      to.poll();
    } catch (const std::runtime_error&) {
      ++caught;
    }
    (void)to.wait(1ms);
  };
  for (const auto deadline = now() + 30s; got.size() < 5 && now() < deadline;)
    turn();
  EXPECT_EQ(got, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(caught, 1);
  // The sender is told of each of them, so nothing of it is open.
  for (int turns = 0; turns != 50; ++turns)
    turn();
  EXPECT_TRUE(from.shutdown(10s));
}

}  // namespace
}  // namespace atbus
