// Nodes whose network is slower than their messages are long.
#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "fault_proxy.h"
#include "test.h"

namespace atbus {
namespace {

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

// The hop from the relay to its child carries 4 MB/s. A message takes three seconds, and a link may be
// silent for 0.75 s.
TEST(SlowNetwork, ALongMessageArrivesOverARelayToo) {
  constexpr std::size_t length = std::size_t{12} << 20;
  const node_options options = node_options{}
                                   .allow_unauthenticated()
                                   .message_limit(length)
                                   .send_buffer_size(2 * length)
                                   .ping_interval(250ms)
                                   .fault_tolerance(3)
                                   .retry(5ms, 50ms);
  node relay{0x100, node_options{options}.children("0x100/56")};
  ASSERT_TRUE(relay.listen("ipv4://127.0.0.1:0"));
  test::fault_proxy network{relay.addresses().front()};
  node near{0x101, node_options{options}.parent(relay.addresses().front())};
  node far{0x102, node_options{options}.parent(network.address())};
  std::vector<std::size_t> got;
  far.on_message([&](const message& m) { got.push_back(m.bytes().size()); });
  const auto until = [&](const auto& done) {
    for (const auto end = now() + 60s; !done() && now() < end;) {
      if (near.poll() + relay.poll() + far.poll() == 0)
        (void)relay.wait(1ms);  // the others have no more to do than to go on
    }
    return done();
  };
  ASSERT_TRUE(until([&] { return near.parent() == 0x100 && far.parent() == 0x100; }));
  ASSERT_TRUE(near.send(0x102, 0, "first"));
  ASSERT_TRUE(until([&] { return got.size() == 1; }));
  const std::uint64_t lost = near.stats().links_lost + far.stats().links_lost;
  network.set(test::direction::to_client, {.piece = 16'384, .pause = 4ms});
  const auto begin = now();
  ASSERT_TRUE(near.send(0x102, 0, std::string(length, 'x')));
  ASSERT_TRUE(near.send(0x102, 0, "behind it"));
  ASSERT_TRUE(until([&] { return got.size() == 3; }));
  EXPECT_GT(now() - begin, 2s);
  EXPECT_EQ(got, (std::vector<std::size_t>{5, length, 9}));
  EXPECT_EQ(near.stats().links_lost + far.stats().links_lost, lost);
}

}  // namespace
}  // namespace atbus
