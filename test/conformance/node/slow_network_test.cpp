// Nodes whose network is slower than their messages are long.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "atbus/core/clock.hpp"
#include "atbus/node/node.hpp"
#include "fault_proxy.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

TEST(SlowNetwork, AMessageMayTakeLongerThanALinkMayBeSilent) {
  constexpr std::size_t length = std::size_t{2} << 20;
  const node_options options = node_options{}
                                   .allow_unauthenticated()
                                   .message_limit(length)
                                   .ping_interval(200ms)
                                   .fault_tolerance(2);
  node one{1, options};
  node two{2, options};
  ASSERT_TRUE(one.listen("ipv4://127.0.0.1:0"));
  test::fault_proxy network{one.addresses().front()};
  std::size_t got = 0;
  one.on_message([&](const message& m) { got = m.bytes().size(); });
  const auto until = [&](const auto& done) {
    for (const auto end = now() + 30s; !done() && now() < end;) {
      if (one.poll() + two.poll() == 0)
        (void)one.wait(1ms);  // the other end has no more to do than to go on writing
    }
    return done();
  };
  ASSERT_TRUE(two.connect(1, network.address()));
  ASSERT_TRUE(until([&] { return two.endpoints().size() == 1 && one.endpoints().size() == 1; }));
  const std::uint64_t links = one.stats().registrations;
  network.set(test::direction::to_server, {.piece = 4096, .pause = 3ms});
  ASSERT_TRUE(two.send(1, 0, std::string(length, 'x')));
  const auto begin = now();
  ASSERT_TRUE(until([&] { return got != 0; }));
  EXPECT_GT(now() - begin, 1s);
  EXPECT_EQ(got, length);
  EXPECT_EQ(one.stats().registrations, links);
}

}  // namespace
}  // namespace atbus
