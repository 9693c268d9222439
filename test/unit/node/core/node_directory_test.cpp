// Nodes that find each other in a directory, over a simulated network.
#include "atbus/directory.hpp"

#include "counting_allocator.h"
#include "unit/node/listed_nodes.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class NodeDirectory : public ::testing::Test {
 protected:
  [[nodiscard]] node_options with_directory() const {
    return node_options{}.allow_unauthenticated().directory(nodes);
  }
  [[nodiscard]] bool comes_true(const std::function<bool()>& holds) {
    return net.run_until(holds, 60s);
  }

  std::shared_ptr<listed_nodes> nodes = std::make_shared<listed_nodes>();
  simulated_network net{1};
};

TEST_F(NodeDirectory, SendsToANodeThatOnlyTheDirectoryNames) {
  party one{net, 1, with_directory()};
  party two{net, 2};
  EXPECT_EQ(one.send(2, "too early"), errc::no_route);
  nodes->list(2, {address_of(2)});
  EXPECT_TRUE(one.send(2, "hello"));
  EXPECT_TRUE(comes_true([&] { return two.got == std::vector<std::string>{"hello"}; }));
  EXPECT_EQ(one.send(3, "nobody"), errc::no_route);
}

TEST_F(NodeDirectory, TriesAllAddresses) {
  nodes->list(2, {address_of(9), "no address at all", address_of(2)});
  party one{net, 1, with_directory()};
  party two{net, 2};
  EXPECT_TRUE(one.send(2, "hello"));
  EXPECT_TRUE(comes_true([&] { return two.got.size() == 1; }));
}

TEST_F(NodeDirectory, SaysNoRouteIfNoAddressCanBeUsed) {
  nodes->list(2, {"no address at all"});
  party one{net, 1, with_directory()};
  EXPECT_EQ(one.send(2, "hello"), errc::no_route);
  EXPECT_TRUE(one.core().endpoints().empty());
}

TEST_F(NodeDirectory, WaitsUntilANodeOfTheDirectoryIsReady) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  party two{net, 2};
  status how = errc::would_block;
  EXPECT_TRUE(one.core().on_ready(2, 10s, [&](status ready) { how = ready; }));
  one.node.wake();
  EXPECT_TRUE(comes_true([&] { return how != errc::would_block; }));
  EXPECT_TRUE(how) << how.text();
}

TEST_F(NodeDirectory, AnnouncesItsLabels) {
  party one{net, 1,
            with_directory().label("zone", "west").label("rack", "7").label("zone", "east")};
  EXPECT_TRUE(comes_true([&] { return nodes->is_announced(1); }));
  EXPECT_EQ(nodes->labels(1),
            (std::map<std::string, std::string>{{"rack", "7"}, {"zone", "east"}}));
}

TEST_F(NodeDirectory, NeverDialsItself) {
  nodes->list(1, {address_of(1)});
  party one{net, 1, with_directory()};
  EXPECT_TRUE(one.send(1, "to myself"));
  EXPECT_TRUE(comes_true([&] { return one.got.size() == 1; }));
  EXPECT_EQ(one.core().stats().dials, 0U);
}

TEST_F(NodeDirectory, DialsNewAddressesAndNoLongerTheOldOnes) {
  nodes->list(2, {address_of(9)});
  party one{net, 1, with_directory()};
  party two{net, 2};
  ASSERT_TRUE(one.send(2, "hello"));
  net.run_for(1s);
  ASSERT_TRUE(two.got.empty());
  nodes->list(2, {address_of(2)});
  EXPECT_TRUE(comes_true([&] { return two.got.size() == 1; }));
  const std::uint64_t dials = one.core().stats().dials;
  net.run_for(60s);
  EXPECT_EQ(one.core().stats().dials, dials);
}

TEST_F(NodeDirectory, DialsNewAddressesThoughItMissesAnAllocation) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  bool missed = true;
  for (std::uint64_t good = 0; missed; ++good) {
    missed = false;
    nodes->list(2, {address_of(9)});
    simulated_network own{1};
    party one{own, 1, with_directory()};
    party two{own, 2};
    ASSERT_TRUE(one.send(2, "hello"));
    own.run_for(1s);
    nodes->list(2, {address_of(2)});
    one.node.instead_of_poll = [&](simulated_node& of) {
      const test::allocation_failure next{good, 1, &foreign_code::runs()};
      try {
        of.user().poll(of.limits);
      } catch (const std::bad_alloc&) {
      }
      missed = missed || test::allocation_failure::happened();
    };
    own.run_for(1500ms);
    one.node.instead_of_poll = nullptr;
    one.node.wake();
    ASSERT_TRUE(own.run_until([&] { return two.got.size() == 1; }, 60s)) << good;
  }
}

// The verb may throw, but what it has changed is not forgotten.
TEST_F(NodeDirectory, IsToldLaterOfWhatFoundNoMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  const std::string service = "a service with a name that takes memory";
  bool missed = true;
  for (std::uint64_t good = 0; missed; ++good) {
    missed = false;
    const auto without_memory = [&](const std::function<void(node_core&)>& verb, node_core& of) {
      const test::allocation_failure next{good, 1};
      try {
        verb(of);
      } catch (const std::bad_alloc&) {
      }
      missed = missed || test::allocation_failure::happened();
    };
    simulated_network own{1};
    party one{own, 1, with_directory()};
    without_memory([&](node_core& core) { (void)core.listen("ipv4://10.0.0.1:7001"); }, one.core());
    own.run_for(5s);
    EXPECT_EQ(nodes->announced(1), one.core().addresses()) << good;
    bool is_offered = false;
    without_memory([&](node_core& core) { is_offered = !!core.offer(service); }, one.core());
    EXPECT_TRUE(is_offered || missed);
    EXPECT_TRUE(one.core().offer(service));  // does nothing if the first one has
    own.run_for(5s);
    EXPECT_EQ(nodes->services(1), std::vector{service}) << good;
    without_memory([&](node_core& core) { (void)core.withdraw(service); }, one.core());
    (void)one.core().withdraw(service);
    own.run_for(5s);
    EXPECT_TRUE(nodes->services(1).empty()) << good;
  }
}

TEST_F(NodeDirectory, KeepsALinkWhoseAddressHasChangedAndUsesTheNewOneAfterIt) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  auto two = std::make_unique<party>(net, 2);
  ASSERT_TRUE(one.send(2, "first"));
  ASSERT_TRUE(comes_true([&] { return two->got.size() == 1; }));
  nodes->list(2, {"ipv4://10.0.0.2:8000"});
  net.run_for(10s);
  EXPECT_TRUE(one.is_connected(2));
  EXPECT_EQ(one.core().stats().links_lost, 0U);
  EXPECT_EQ(one.core().stats().dials, 1U);
  two.reset();
  party moved{net, 2};
  ASSERT_TRUE(moved.core().listen("ipv4://10.0.0.2:8000"));
  ASSERT_TRUE(one.send(2, "second"));
  EXPECT_TRUE(comes_true([&] { return moved.got == std::vector<std::string>{"second"}; }));
}

TEST_F(NodeDirectory, KeepsALinkToANodeThatIsNoLongerListed) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  party two{net, 2};
  ASSERT_TRUE(one.send(2, "first"));
  ASSERT_TRUE(comes_true([&] { return two.got.size() == 1; }));
  nodes->list(2, {});
  net.run_for(10s);
  EXPECT_TRUE(one.is_connected(2));
  ASSERT_TRUE(one.send(2, "second"));
  EXPECT_TRUE(comes_true([&] { return two.got.size() == 2; }));
  net.cut(1, 2, seen_by::both);
  EXPECT_TRUE(comes_true([&] { return one.core().endpoints().empty(); }));
  EXPECT_EQ(one.send(2, "third"), errc::no_route);
}

TEST_F(NodeDirectory, ReportsWhatWaitsForANodeThatIsNoLongerListed) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  ASSERT_TRUE(one.send(2, "hello"));
  net.run_for(1s);
  nodes->list(2, {});
  EXPECT_TRUE(comes_true([&] { return one.reports.size() == 1; }));
  EXPECT_EQ(one.reports.at(0).outcome, errc::not_delivered);
  EXPECT_TRUE(one.core().endpoints().empty());
}

TEST_F(NodeDirectory, LeavesAloneWhatConnectNames) {
  party one{net, 1, with_directory()};
  party two{net, 2};
  one.connect(2);
  nodes->list(2, {address_of(9)});
  net.run_for(10s);
  nodes->list(2, {});
  net.run_for(10s);
  net.cut(1, 2, seen_by::both);
  ASSERT_TRUE(one.send(2, "hello"));
  EXPECT_TRUE(comes_true([&] { return two.got.size() == 1; }));
}

TEST_F(NodeDirectory, WhatConnectNamesTooStaysWhenTheDirectoryForgetsIt) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  ASSERT_TRUE(one.send(2, "hello"));
  one.connect(2);
  nodes->list(2, {});
  net.run_for(40s);
  party two{net, 2};
  EXPECT_TRUE(comes_true([&] { return two.got.size() == 1; }));
}

TEST_F(NodeDirectory, DialsANodeThatHadConnectedAndLeftSomethingWhenItIsSentTo) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  auto two = std::make_unique<party>(net, 2);
  two->connect(1);
  ASSERT_TRUE(comes_true([&] { return one.is_connected(2); }));
  ASSERT_TRUE(one.send(2, "first"));
  two.reset();
  ASSERT_TRUE(comes_true([&] { return !one.is_connected(2); }));
  ASSERT_TRUE(one.send(2, "second"));
  net.run_for(40s);  // longer than it would wait for one that nobody names
  party again{net, 2};
  EXPECT_TRUE(comes_true([&] { return again.got.size() == 2; }));
  EXPECT_TRUE(one.reports.empty());
}

TEST_F(NodeDirectory, IsLoggedOnceWhenItFailsAndWhenItIsBack) {
  nodes->list(2, {address_of(2)});
  party one{net, 1, with_directory()};
  party two{net, 2};
  ASSERT_TRUE(one.send(2, "hello"));
  nodes->fail("the list is on fire");
  net.run_for(60s);
  EXPECT_EQ(one.logged("the list is on fire"), 1);
  EXPECT_TRUE(one.is_connected(2));
  nodes->fail("");
  net.run_for(60s);
  EXPECT_EQ(one.logged("in use again"), 1);
}

TEST_F(NodeDirectory, IsToldWhereANodeListensAndLetGoWithIt) {
  {
    party one{net, 1, with_directory()};
    EXPECT_EQ(nodes->announced(1), std::vector<std::string>{address_of(1)});
    ASSERT_TRUE(one.core().listen("ipv4://10.0.0.1:8000"));
    EXPECT_EQ(nodes->announced(1).size(), 2U);
    EXPECT_EQ(nodes->watchers(), 1U);
  }
  EXPECT_EQ(nodes->watchers(), 0U);
}

TEST_F(NodeDirectory, IsToldWhereInATreeANodeStands) {
  const auto place_of = [&](node_options options) {
    const party one{net, 1, options.allow_unauthenticated().directory(nodes)};
    return nodes->place(1);
  };
  EXPECT_EQ(place_of({}), tree_place::none);
  EXPECT_EQ(place_of(node_options{}.parent(address_of(9))), tree_place::leaf);
  EXPECT_EQ(place_of(node_options{}.parent(address_of(9)).children("0/60")), tree_place::relay);
  EXPECT_EQ(place_of(node_options{}.children("0/60")), tree_place::root);
}

TEST_F(NodeDirectory, IsToldOfTheEndOfANodeThatItKnows) {
  {
    const party one{net, 1, with_directory()};
    ASSERT_TRUE(nodes->is_announced(1));
  }
  EXPECT_FALSE(nodes->is_announced(1));
  party two{net, 2, with_directory()};
  two.core().leave();
  EXPECT_FALSE(nodes->is_announced(2));  // before its links end
  nodes->list(2, {address_of(2)});
  net.run_for(10s);
  EXPECT_FALSE(nodes->is_announced(2));
}

// The node wakes every two seconds for it, not more often.
TEST_F(NodeDirectory, CostsAnIdleNodeAWakeUpInTwoSeconds) {
  party one{net, 1, with_directory()};
  net.run_for(1s);
  EXPECT_GE(one.core().longest_sleep(), 500ms);
  EXPECT_LE(one.core().longest_sleep(), 2s);
}

TEST_F(NodeDirectory, DialsASiblingAgainThatWasListedWhileItWasDialled) {
  std::optional<party> parent{std::in_place, net, 64, plain().children("64/58")};
  const auto child = [](node_options options, std::string_view range) {
    return options.parent(address_of(64)).children(range);
  };
  party one{net, 80, child(with_directory(), "80/60")};
  std::optional<party> two{std::in_place, net, 96, child(plain(), "96/60")};
  ASSERT_TRUE(comes_true([&] { return one.core().parent() == 64 && two->core().parent() == 64; }));
  net.conditions.delay_min = net.conditions.delay_max = 3s;
  const std::uint64_t dials = one.core().stats().dials;
  EXPECT_TRUE(one.send(96, "first"));
  // Over other nodes, and as a sibling.
  ASSERT_TRUE(comes_true([&] { return one.core().stats().dials == dials + 2; }));
  nodes->list(96, {address_of(96)});
  parent.reset();
  two.reset();
  net.run_for(60s);
  net.conditions = {};
  two.emplace(net, 96, child(plain(), "96/60"));
  EXPECT_TRUE(one.send(96, "second"));
  EXPECT_TRUE(comes_true([&] { return !two->got.empty() && two->got.back() == "second"; }));
}

}  // namespace
}  // namespace atbus::detail
