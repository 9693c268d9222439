// Links through shared memory with a name, whose other end was another process before.
#include <deque>

#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

// A relay that fills its link to a child has the batches of others wait for its own messages. The child's
// next incarnation owes it nothing.
TEST(ReturnedLink, TakesWhatPassesThroughThoughItWasSharedBefore) {
  simulated_network net{1};
  std::map<std::uint64_t, std::size_t> got;
  const auto make_child = [&] {
    auto made =
        std::make_unique<simulated_node>(net, 65, plain().parent("shm://relay"), host_of(64));
    made->core().handlers().on_message = [&got](const message& m) { ++got[m.source().value()]; };
    EXPECT_TRUE(made->core().listen("shm://child"));
    return made;
  };
  party relay{net, 64, plain().children("64/58"), host_of(64)};
  EXPECT_TRUE(relay.core().listen("shm://relay"));
  auto child = make_child();
  // Far enough from the child that all they send goes over the relay.
  std::deque<party> others;
  for (std::uint64_t id = 66; id != 78; ++id)
    others.emplace_back(net, id, plain().parent(address_of(64)), host_of(id));
  ASSERT_TRUE(net.run_until(
      [&] {
        return child->core().parent() == bus_id{64} && others.back().core().parent() == bus_id{64};
      },
      60s));
  EXPECT_TRUE(relay.core().connect(bus_id{65}, "shm://child"));
  relay.node.wake();
  for (party& other : others) {
    net.separate(65, other.core().self().id);
    EXPECT_TRUE(other.send(65, "first"));
  }
  EXPECT_TRUE(relay.send(65, "first"));
  ASSERT_TRUE(net.run_until([&] { return got.size() == others.size() + 1; }, 60s));
  // Its user and the others fill the link until the child stops, and no more.
  const std::string text(1000, 'x');
  const auto fill = [&](party& by) {
    while (by.send(65, text)) {
    }
  };
  for (int turn = 0; turn != 400; ++turn) {
    if (turn == 200)
      child->stop_until(net.now() + 3600s);
    fill(relay);
    for (party& other : {std::ref(others[0]), std::ref(others[1])})
      fill(other);
    net.run_for(2ms);
  }
  child.reset();
  net.run_for(500ms);
  child = make_child();
  net.run_for(60s);
  got.clear();
  for (int second = 0; second != 60; ++second) {
    for (party& other : others)
      (void)other.send(65, "again");
    net.run_for(1s);
  }
  EXPECT_EQ(got.size(), others.size());
}

// Whoever opens the name of a parent is asked whether it is that one; the link stays that peer's.
TEST(ReturnedLink, OfAParentIsNotAnotherNodes) {
  for (unsigned seed = 1; seed != 20; ++seed) {
    simulated_network net{seed};
    const auto parent_options = [] { return plain().children("16/60"); };
    auto first = std::make_unique<simulated_node>(net, 16, parent_options(), host_of(17));
    ASSERT_TRUE(first->core().listen("shm://parent"));
    party child{net, 17, plain().parent("shm://parent"), host_of(17)};
    ASSERT_TRUE(net.run_until([&] { return child.core().parent() == bus_id{16}; }, 60s));
    net.run_for(1s);
    first.reset();
    auto standby = std::make_unique<simulated_node>(net, 18, parent_options(), host_of(17));
    ASSERT_TRUE(standby->core().listen("shm://parent"));
    // It is back as a peer before the child has called at the name again.
    simulated_node back{net, 16, plain(), host_of(16)};
    ASSERT_TRUE(back.core().connect(bus_id{17}, address_of(17)));
    back.wake();
    net.run_for(2s);
    EXPECT_EQ(child.core().parent(), bus_id{18}) << "seed " << seed;
    standby.reset();
    net.run_for(2s);
    (void)child.core().disconnect(bus_id{16});
    child.node.wake();
    net.run_for(2s);
  }
}

}  // namespace
}  // namespace atbus::detail
