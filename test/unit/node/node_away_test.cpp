// Nodes whose peer dies with a named segment, and whose successor is reached another way.
#include <map>
#include <memory>

#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "atbus/testing.hpp"
#include "named_inbox.h"
#include "test.h"

namespace atbus::testing {
namespace {

using texts = std::vector<std::string>;

// Node 66 dies at shm://worker, where nobody opens that name again unless a test says so.
class NodeAway : public ::testing::Test {
 protected:
  struct records {
    texts got;  // by all incarnations
    texts reported;
    std::vector<endpoint_event> events;
  };
  static node_options plain() { return node_options{}.allow_unauthenticated(); }
  static std::string tcp(std::uint64_t id) {
    return "ipv4://10.0.0." + std::to_string(id) + ":7000";
  }
  void start(std::uint64_t id, const node_options& options, const texts& addresses, unsigned host) {
    sim.start(id,
              [this, id, addresses](node& of) {
                records& into = of_[id];
                of.on_message([&into](const message& m) {
                  into.got.push_back(std::string{m.text()} + (m.redelivered() ? " again" : ""));
                });
                of.on_undelivered([&into](const undelivered& what) {
                  into.reported.push_back(std::string{as_text(what.bytes())} + ": " +
                                          std::string{name(what.outcome())});
                });
                of.on_endpoint([&into](const endpoint&, endpoint_event event) {
                  into.events.push_back(event);
                });
                for (const std::string& one : addresses)
                  EXPECT_TRUE(of.listen(one)) << one;
              },
              {.node = options, .host = host});
  }
  // Node 64, on a host of its own, is the parent of 65 and 66, which share one.
  void start_tree(const texts& of_65 = {tcp(65)}) {
    start(64, plain().children("64/58"), {tcp(64)}, 2);
    start(66, plain().parent(tcp(64)), {tcp(66), "shm://worker"}, 1);
    start(65, plain().parent(tcp(64)), of_65, 1);
    sim.run_for(5s);
    EXPECT_TRUE(sim.node(65).send(66, 0, "before"));
    sim.run_for(20s);
    ASSERT_EQ(of_[66].got, texts{"before"});
    ASSERT_EQ(way_to(65, 66), "shm://worker");
  }
  // Where the messages from one node to the other go.
  std::string way_to(std::uint64_t from, bus_id to) {
    for (const endpoint& one : sim.node(from).endpoints()) {
      if (one.id() == to)
        return one.connected() ? std::string{one.address()} : "nowhere";
    }
    return "nowhere";
  }
  [[nodiscard]] bool has_come(std::uint64_t to, std::size_t count) {
    return sim.run_until([&] { return of_[to].got.size() == count; }, 2min);
  }

  simulation sim{1};
  std::map<std::uint64_t, records> of_;
};

TEST_F(NodeAway, IsDialledAtItsOtherAddress) {
  start(2, plain(), {tcp(2), "shm://worker"}, 1);
  start(1, plain(), {}, 1);
  EXPECT_TRUE(sim.node(1).connect(2, tcp(2)));
  sim.run_for(5s);
  ASSERT_EQ(way_to(1, 2), "shm://worker");
  sim.kill(2);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(1).send(2, 0, "while it is away"));
  start(2, plain(), {tcp(2)}, 1);
  ASSERT_TRUE(has_come(2, 1));
  EXPECT_EQ(way_to(1, 2), tcp(2));
  EXPECT_EQ(of_[2].got, texts{"while it is away"});
  EXPECT_EQ(of_[1].events, (std::vector{endpoint_event::connected, endpoint_event::moved,
                                        endpoint_event::away, endpoint_event::connected}));
}

TEST_F(NodeAway, IsReachedOverTheParent) {
  start_tree();
  sim.kill(66);
  EXPECT_TRUE(sim.node(65).send(66, 0, "to nobody"));
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "while it is away"));
  start(66, plain().parent(tcp(64)), {tcp(67)}, 3);  // on another host
  ASSERT_TRUE(has_come(66, 3));
  EXPECT_EQ(of_[66].got, (texts{"before", "to nobody", "while it is away"}));
  for (int i = 0; i != 20; ++i) {
    EXPECT_TRUE(sim.node(65).send(66, 0, "more"));
    sim.run_for(10s);
  }
  EXPECT_EQ(of_[66].got.size(), 23U);
  EXPECT_EQ(way_to(65, 66), tcp(67));  // a direct link again
  EXPECT_TRUE(of_[65].reported.empty());
}

TEST_F(NodeAway, AsAPeerIsReachedOverTheParent) {
  start(64, plain().children("64/58"), {tcp(64)}, 2);
  start(66, plain().parent(tcp(64)), {"shm://worker"}, 1);
  start(65, plain().parent(tcp(64)), {}, 1);
  EXPECT_TRUE(sim.node(65).connect(66, "shm://worker"));
  sim.run_for(5s);
  ASSERT_EQ(way_to(65, 66), "shm://worker");
  sim.kill(66);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "while it is away"));
  start(66, plain().parent(tcp(64)), {}, 3);
  ASSERT_TRUE(has_come(66, 1));
}

TEST_F(NodeAway, MaySendOverTheParent) {
  start_tree({});
  sim.kill(66);
  sim.run_for(1s);
  start(66, plain().parent(tcp(64)), {}, 3);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(66).send(65, 0, "from the new one"));
  ASSERT_TRUE(has_come(65, 1));
  EXPECT_TRUE(of_[66].reported.empty());
}

TEST_F(NodeAway, FindsNothingTwiceInTheSegmentWhenALaterIncarnationOpensIt) {
  start_tree();
  sim.stop_for(66, 1s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "one"));
  sim.run_for(10ms);
  sim.kill(66);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "two"));
  start(66, plain().parent(tcp(64)), {}, 3);
  ASSERT_TRUE(has_come(66, 3));
  EXPECT_TRUE(sim.node(65).send(66, 0, "three"));
  ASSERT_TRUE(has_come(66, 4));
  sim.kill(66);
  start(66, plain().parent(tcp(64)), {"shm://worker"}, 1);
  sim.run_for(1min);
  EXPECT_TRUE(sim.node(65).send(66, 0, "four"));
  sim.run_for(1min);
  EXPECT_EQ(of_[66].got, (texts{"before", "one", "two", "three", "four"}));
  EXPECT_TRUE(of_[65].reported.empty());
}

// Processes that die as soon as they have opened the name.
class NodeAwayWithShortLives : public NodeAway,
                               public ::testing::WithParamInterface<std::chrono::microseconds> {};

TEST_P(NodeAwayWithShortLives, IsReachedOverTheParent) {
  start_tree();
  sim.kill(66);
  EXPECT_TRUE(sim.node(65).send(66, 0, "one"));
  sim.run_for(1s);
  for (int i = 0; i != 2; ++i) {
    start(66, plain().parent(tcp(64)), {"shm://worker"}, 1);
    sim.run_for(GetParam());
    sim.kill(66);
    sim.run_for(20ms);
  }
  EXPECT_TRUE(sim.node(65).send(66, 0, "two"));
  start(66, plain().parent(tcp(64)), {}, 3);
  sim.run_for(2min);
  const texts& got = of_[66].got;
  EXPECT_TRUE(got.size() + of_[65].reported.size() == 3 && got.back() == "two")
      << ::testing::PrintToString(got) << ::testing::PrintToString(of_[65].reported);
}

INSTANTIATE_TEST_SUITE_P(Each, NodeAwayWithShortLives,
                         ::testing::Values(0us, 100us, 1ms, 10ms, 30ms, 70ms, 100ms, 150ms, 200ms,
                                           240ms, 251ms, 300ms, 500ms),
                         [](const auto& one) { return std::to_string(one.param.count()) + "us"; });

TEST_F(NodeAway, KeepsItsPlaceAsASiblingWhenItOpensTheNameAgain) {
  start_tree();
  for (int i = 0; i != 3; ++i) {
    sim.kill(66);
    EXPECT_TRUE(sim.node(65).send(66, 0, "one"));
    sim.run_for(10s);
    EXPECT_TRUE(sim.node(65).send(66, 0, "two"));
    start(66, plain().parent(tcp(64)), {tcp(66), "shm://worker"}, 1);
    ASSERT_TRUE(has_come(66, 3 + 2 * static_cast<std::size_t>(i)));
    sim.run_for(10s);
    EXPECT_EQ(way_to(65, 66), "shm://worker");
  }
  EXPECT_EQ(of_[66].got, (texts{"before", "one", "two", "one", "two", "one", "two"}));
  EXPECT_TRUE(of_[65].reported.empty());
}

// The names of a parent.
class ParentAway : public NodeAway {
 protected:
  void start_family() {
    start(64, plain().children("64/58"), {tcp(64), "shm://parent"}, 1);
    start(65, plain().parent(tcp(64)).parent("ipv4://10.0.0.90:7000"), {tcp(65)}, 1);
    start(66, plain().parent(tcp(64)).parent("ipv4://10.0.0.90:7000"), {tcp(66)}, 2);
    sim.run_for(20s);
    ASSERT_EQ(way_to(65, 64), "shm://parent");
  }
};

TEST_F(ParentAway, IsDialledAtItsOtherAddress) {
  start_family();
  sim.kill(64);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(64, 0, "up"));
  start(64, plain().children("64/58"), {tcp(64)}, 1);
  ASSERT_TRUE(has_come(64, 1));
  sim.run_for(5s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "across"));
  ASSERT_TRUE(has_come(66, 1));
  EXPECT_EQ(sim.node(65).parent(), bus_id{64});
}

TEST_F(ParentAway, LeavesItsPlaceToAnother) {
  start_family();
  sim.kill(64);
  sim.run_for(1s);
  EXPECT_EQ(sim.node(65).parent(), bus_id{64});  // it may be back soon
  start(67, plain().children("64/58"), {"ipv4://10.0.0.90:7000"}, 3);
  sim.run_for(5s);
  EXPECT_EQ(sim.node(65).parent(), bus_id{67});
  EXPECT_EQ(sim.node(66).parent(), bus_id{67});
  EXPECT_TRUE(sim.node(65).send(66, 0, "across"));
  ASSERT_TRUE(has_come(66, 1));
}

TEST_F(ParentAway, IsTheParentAgainWhenItOpensTheNameAgain) {
  start_family();
  sim.kill(64);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(64, 0, "up"));
  start(64, plain().children("64/58"), {"shm://parent"}, 1);
  ASSERT_TRUE(has_come(64, 1));
  sim.run_for(1s);
  EXPECT_EQ(sim.node(65).parent(), bus_id{64});
  EXPECT_EQ(way_to(65, 64), "shm://parent");
}

// Real nodes: the second incarnation of node 2 does not open the segment of the first one, the third
// one does.
TEST(RealNodeAway, IsReachedAtItsOtherAddressAndFindsNothingTwice) {
  const auto options = node_options{}.allow_unauthenticated().retry(10ms, 50ms);
  const test::named_inbox inbox{"away"};
  const std::string segment = inbox.address();
  texts got;
  std::unique_ptr<node> two;
  std::string where = "ipv4://127.0.0.1:0";
  const auto start_two = [&](bool with_segment) {
    two = std::make_unique<node>(2, options);
    two->on_message([&](const message& m) {
      got.push_back(std::string{m.text()} + (m.redelivered() ? " again" : ""));
    });
    ASSERT_TRUE(two->listen(where));
    where = two->addresses().front();
    if (with_segment) {
      ASSERT_TRUE(two->listen(segment));
    }
  };
  start_two(true);
  node one{1, options};
  texts reported;
  one.on_undelivered([&](const undelivered& what) {
    reported.push_back(std::string{as_text(what.bytes())} + ": " +
                       std::string{name(what.reason())});
  });
  ASSERT_TRUE(one.connect(2, where));
  const auto run_until = [&](auto holds, std::chrono::nanoseconds longest = 20s) {
    const auto end = now() + longest;
    while (!holds() && now() < end) {
      one.poll();
      if (two != nullptr)
        two->poll();
    }
    return holds();
  };
  const auto is_at = [&](const std::string& address) {
    const auto all = one.endpoints();
    return all.size() == 1 && all[0].connected() && all[0].address() == address;
  };
  ASSERT_TRUE(run_until([&] { return is_at(segment); }));
  ASSERT_TRUE(one.send(2, 0, "one"));  // not handled before its end
  two.reset();
  ASSERT_TRUE(run_until([&] { return !one.endpoints()[0].connected(); }));
  ASSERT_TRUE(one.send(2, 0, "two"));
  start_two(false);
  ASSERT_TRUE(run_until([&] { return got.size() == 2; }));
  ASSERT_TRUE(is_at(where));
  // Both are acknowledged within 20 ms, and a few turns.
  (void)run_until([] { return false; }, 50ms);
  (void)run_until([turns = 100]() mutable { return --turns == 0; });
  two.reset();
  ASSERT_TRUE(run_until([&] { return !one.endpoints()[0].connected(); }));
  start_two(true);
  ASSERT_TRUE(one.send(2, 0, "three"));
  ASSERT_TRUE(run_until([&] { return got.size() == 3; }))
      << ::testing::PrintToString(got) << ::testing::PrintToString(reported);
  ASSERT_TRUE(run_until([&] { return is_at(segment); }));
  EXPECT_EQ(got, (texts{"one", "two", "three"}));
}

// A directory in the test's hands.
class listed final : public directory {
 public:
  void list(bus_id id, texts addresses) {
    all_[id] = std::move(addresses);
    changed_.push_back(id);
  }
  texts lookup(bus_id id) override { return all_[id]; }
  watch_id watch(std::function<void(bus_id)> changed) override {
    watcher_ = std::move(changed);
    return 1;
  }
  void unwatch(watch_id) override { watcher_ = nullptr; }
  error announce(const directory_record&) override { return {}; }
  error poll() override {
    for (const bus_id id : std::exchange(changed_, {})) {
      if (watcher_)
        watcher_(id);
    }
    return {};
  }

 private:
  std::map<bus_id, texts> all_;
  std::vector<bus_id> changed_;
  std::function<void(bus_id)> watcher_;
};

TEST_F(NodeAway, ASuccessorThatTheDirectoryNamesElsewhereIsDialled) {
  const auto names = std::make_shared<listed>();
  names->list(66, {tcp(66)});
  start(66, plain(), {tcp(66), "shm://worker"}, 1);
  start(65, plain().directory(names), {}, 1);
  sim.run_for(100ms);
  EXPECT_TRUE(sim.node(65).send(66, 0, "before"));
  sim.run_for(10s);
  ASSERT_EQ(way_to(65, 66), "shm://worker");
  sim.kill(66);
  sim.run_for(1s);
  EXPECT_TRUE(sim.node(65).send(66, 0, "waits"));
  start(66, plain(), {tcp(67)}, 2);
  names->list(66, {tcp(67)});
  sim.run_for(1min);
  EXPECT_EQ(of_[66].got, (texts{"before", "waits"}));
}

TEST_F(NodeAway, AParentThatCameBackAsAPeerIsTheParentAgainWhenTheOtherOneEnds) {
  start(64, plain().children("64/58"), {"shm://worker"}, 1);
  start(65, plain().parent("shm://worker").parent(tcp(90)), {tcp(65)}, 1);
  sim.run_for(10s);
  ASSERT_EQ(sim.node(65).parent(), bus_id{64});
  sim.kill(64);
  sim.run_for(1s);
  start(67, plain().children("64/58"), {tcp(90)}, 3);
  sim.run_for(5s);
  ASSERT_EQ(sim.node(65).parent(), bus_id{67});
  start(64, plain().children("64/58"), {"shm://worker"}, 1);
  sim.run_for(5s);
  EXPECT_EQ(sim.node(65).parent(), bus_id{67});
  sim.kill(67);
  sim.run_for(1min);
  EXPECT_EQ(sim.node(65).parent(), bus_id{64});
}

}  // namespace
}  // namespace atbus::testing
