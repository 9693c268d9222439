// Which link a flow takes when several come and go, over a simulated network.
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

TEST(NodeCorePaths, RegistersAnewWhenANumberOnTheLostLinkMayStillCome) {
  simulated_network net{1};
  party one{net, 1};
  ASSERT_TRUE(one.core().listen("unix:///one"));
  // Acknowledges nothing, not even where the flow begins.
  auto first = std::make_unique<hand_played>(net, 2, 1, true);
  ASSERT_TRUE(net.run_until([&] { return one.is_connected(2); }, 5s));
  hand_played better{net, 2, 1, true, false, {}, "unix:///one"};
  ASSERT_TRUE(net.run_until([&] { return better.is_registered(); }, 5s));
  net.run_for(1s);
  ASSERT_FALSE(better.has_ended());
  first.reset();
  ASSERT_TRUE(net.run_until([&] { return better.has_ended(); }, 5s));
  EXPECT_EQ(one.count(endpoint_event::moved), 0);
}

// Each may register the link that the other one has dialled before its own: it must not be ended while
// the other one uses it.
TEST(NodeCorePaths, StaysConnectedWhileBothEndsDialABetterLink) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    simulated_network net{seed};
    party one{net, 1, plain(), host_of(1)};
    party two{net, 2, plain(), host_of(1)};
    ASSERT_TRUE(one.core().listen("unix:///one"));
    ASSERT_TRUE(two.core().listen("unix:///two"));
    // To and fro for a while, so that all is acknowledged at once.
    const auto answer = [](party& by, std::uint64_t to) {
      return [&by, to](const message&) {
        if (by.got.size() < 50)
          (void)by.send(to, "ball");
      };
    };
    one.on_message = answer(one, 2);
    two.on_message = answer(two, 1);
    one.connect(2);
    EXPECT_TRUE(one.send(2, "ball"));
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    net.run_for(1s);
    for (party* const each : {&one, &two}) {
      EXPECT_EQ(each->count(endpoint_event::disconnected), 0) << "seed " << seed;
      EXPECT_GE(each->count(endpoint_event::moved), 1) << "seed " << seed;
      EXPECT_EQ(each->node.channels().links().size(), 1U) << "seed " << seed;
    }
    if (HasFailure())
      return;
  }
}

// Neither hello nor welcome has an address that is new since they were made.
TEST(NodeCorePaths, MovesToAnAddressThatIsNewSinceTheHandshakeBegan) {
  for (const bool dials : {true, false}) {
    for (auto listens_after = 0ms; listens_after != 80ms; listens_after += 2ms) {
      simulated_network net{1};
      net.conditions.delay_min = net.conditions.delay_max = 10ms;
      party one{net, 1, plain(), host_of(1)};
      party two{net, 2, plain(), host_of(1)};
      one.connect(2);
      net.run_for(listens_after);
      party& late = dials ? one : two;
      ASSERT_TRUE(late.core().listen("unix:///late"));
      late.node.wake();
      const auto is_moved = [&] {
        return one.count(endpoint_event::moved) == 1 && two.count(endpoint_event::moved) == 1;
      };
      ASSERT_TRUE(net.run_until(is_moved, 5s))
          << (dials ? "the one that dials" : "the other one") << " listens after "
          << listens_after.count() << " ms";
    }
  }
}

}  // namespace
}  // namespace atbus::detail
