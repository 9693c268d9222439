// Parents and children that find each other, over a simulated network.
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class NodeTree : public ::testing::Test {
 protected:
  bool until(const std::function<bool()>& holds) { return net.run_until(holds, 60s); }

  simulated_network net{1};
};

TEST_F(NodeTree, AChildConnectsToWhoeverAnswersAsItsParent) {
  party parent{net, 16, plain().children("16/60")};
  party child{net, 17, plain().parent(address_of(16))};
  EXPECT_EQ(child.core().parent(), 0);
  ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  ASSERT_TRUE(until([&] { return parent.is_connected(17); }));
  EXPECT_EQ(parent.core().parent(), 0);
  EXPECT_EQ(child.count(endpoint_event::connected), 1);
  EXPECT_TRUE(child.send(16, "up"));
  EXPECT_TRUE(parent.send(17, "down"));
  ASSERT_TRUE(until([&] { return parent.got.size() == 1 && child.got.size() == 1; }));
}

TEST_F(NodeTree, AChildThatIsRefusedSaysWhy) {
  party parent{net, 16, plain().children("16/60")};
  party other{net, 32, plain()};
  party outside{net, 40, plain().parent(address_of(16))};
  party wide{net, 17, plain().parent(address_of(16)).children("16/60")};
  party of_none{net, 33, plain().parent(address_of(32))};
  net.run_for(10s);
  const std::string_view no_child = " can't be a child of node ";
  for (party* const one : {&outside, &wide, &of_none}) {
    EXPECT_EQ(one->core().parent(), 0);
    EXPECT_EQ(one->logged(no_child), 1) << one->log.at(0);
    EXPECT_EQ(one->count(endpoint_event::refused), 1);
    EXPECT_GT(one->core().stats().dials, 2U) << "it is tried again";
  }
  EXPECT_EQ(outside.logged("node 40 (0x28, no range) can't be a child of node 16 (0x10, range "
                           "0x10/60): the id is outside of its range"),
            1);
  EXPECT_EQ(wide.logged("not longer than its own"), 1);
  EXPECT_EQ(of_none.logged("it has no range for children"), 1);
  EXPECT_GE(parent.logged(no_child), 1) << "and is told so";
  EXPECT_TRUE(parent.core().endpoints().empty());
}

TEST_F(NodeTree, AChildThatOverlapsAnotherIsRefusedByTheParent) {
  party parent{net, 16, plain().children("16/60")};
  party first{net, 17, plain().parent(address_of(16)).children("20/62")};
  ASSERT_TRUE(until([&] { return parent.is_connected(17); }));
  party second{net, 18, plain().parent(address_of(16)).children("22/63")};
  net.run_for(10s);
  for (const party* const one : {&parent, &second}) {
    EXPECT_GE(one->logged("node 18 (0x12, range 0x16/63) can't be a child of node 16 (0x10, range "
                          "0x10/60): node 17 (0x11, range 0x14/62) is in the way"),
              1);
  }
  EXPECT_GE(second.count(endpoint_event::refused), 1);
  EXPECT_FALSE(parent.is_connected(18));
  EXPECT_TRUE(parent.is_connected(17));
  // Until its place is free.
  EXPECT_TRUE(first.core().disconnect(16));
  first.node.wake();
  EXPECT_TRUE(until([&] { return second.core().parent() == 16; }));
}

TEST_F(NodeTree, AnIdIsTakenOnce) {
  party parent{net, 16, plain().children("16/60")};
  party first{net, 17, plain().parent(address_of(16))};
  ASSERT_TRUE(until([&] { return parent.is_connected(17); }));
  simulated_node second{net, 17, plain().parent(address_of(16)), {}};
  std::vector<std::string> lines;
  second.core().handlers().on_log = [&](std::string_view line) { lines.emplace_back(line); };
  net.run_for(10s);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("bus id 17 is taken"), std::string::npos) << lines[0];
  EXPECT_EQ(second.core().parent(), 0);
  EXPECT_EQ(first.core().parent(), 16);
}

TEST_F(NodeTree, TwoThatNameEachOtherAsParentsAreRefused) {
  party one{net, 16, plain().children("16/60").parent(address_of(17))};
  party two{net, 17, plain().children("0/59").parent(address_of(16))};
  net.run_for(10s);
  // The one with the wider range is the parent, of one that does not hold its id.
  EXPECT_EQ(one.core().parent(), 0);
  EXPECT_EQ(two.core().parent(), 0);
  EXPECT_EQ(one.logged("the range holds its id"), 1);
  EXPECT_EQ(two.logged("not longer than its own"), 1);
  EXPECT_GE(one.count(endpoint_event::refused), 1);
  EXPECT_GE(two.count(endpoint_event::refused), 1);
}

TEST_F(NodeTree, ChildrenComeBackWhenTheParentHasRestarted) {
  auto parent = std::make_unique<party>(net, 16, plain().children("16/60"));
  std::vector<std::unique_ptr<party>> children;
  for (std::uint64_t id = 17; id != 27; ++id)
    children.push_back(std::make_unique<party>(net, id, plain().parent(address_of(16))));
  const auto all_have = [&](std::uint64_t id) {
    return std::ranges::all_of(children,
                               [&](const auto& one) { return one->core().parent() == id; });
  };
  ASSERT_TRUE(until([&] { return all_have(16); }));
  parent.reset();
  ASSERT_TRUE(until([&] { return all_have(0); }));
  net.run_for(600s);
  EXPECT_TRUE(children[0]->send(16, "for the next one"));
  parent = std::make_unique<party>(net, 16, plain().children("16/60"));
  ASSERT_TRUE(net.run_until([&] { return all_have(16); }, 5s));
  ASSERT_TRUE(until([&] { return parent->got.size() == 1; }));
  for (const auto& child : children)
    EXPECT_EQ(child->count(endpoint_event::disconnected), 1);
}

TEST_F(NodeTree, AnotherParentTakesThePlaceOfOneThatIsGone) {
  auto first = std::make_unique<party>(net, 16, plain().children("16/60"));
  party child{net, 18, plain().parent(address_of(16)).parent(address_of(17))};
  ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  first.reset();
  ASSERT_TRUE(until([&] { return child.core().parent() == 0; }));
  EXPECT_TRUE(child.send(16, "for nobody else"));
  party second{net, 17, plain().children("16/60")};
  ASSERT_TRUE(until([&] { return child.core().parent() == 17; }));
  EXPECT_TRUE(child.send(17, "up"));
  ASSERT_TRUE(until([&] { return second.got.size() == 1; }));
  // The first one is a peer like others that are away.
  ASSERT_TRUE(until([&] { return child.reports.size() == 1; }));
  EXPECT_EQ(child.reports[0].text, "for nobody else");
  EXPECT_TRUE(child.send(16, "more"));
  ASSERT_TRUE(until([&] { return child.reports.size() == 2; }));
  EXPECT_EQ(child.reports[1].reason, errc::no_route);
  // When it is back the child stays where it is.
  party back{net, 16, plain().children("16/60")};
  net.run_for(60s);
  EXPECT_EQ(child.core().parent(), 17);
  EXPECT_FALSE(back.is_connected(18));
}

TEST_F(NodeTree, OneOfTwoThatAnswerIsTheParent) {
  party first{net, 16, plain().children("16/60")};
  party second{net, 17, plain().children("16/60")};
  party child{net, 18, plain().parent(address_of(16)).parent(address_of(17))};
  net.run_for(10s);
  EXPECT_NE(child.core().parent(), 0);
  EXPECT_NE(first.is_connected(18), second.is_connected(18));
  EXPECT_EQ(child.core().endpoints().size(), 1U);
}

TEST_F(NodeTree, AParentThatIsDisconnectedIsNotDialledAgain) {
  party parent{net, 16, plain().children("16/60")};
  party child{net, 17, plain().parent(address_of(16)).parent(address_of(20))};
  ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  EXPECT_TRUE(child.core().disconnect(16));
  child.node.wake();
  ASSERT_TRUE(until([&] { return child.core().endpoints().empty(); }));
  const std::uint64_t dials = child.core().stats().dials;
  net.run_for(60s);
  EXPECT_EQ(child.core().stats().dials, dials);
  EXPECT_EQ(child.core().parent(), 0);
}

TEST_F(NodeTree, AParentIsNotOneThatSaysSoUnasked) {
  party one{net, 17};
  hand_played unproven{net, 16, 17, true, true, [](introduction& self) {
                         self.as = relation::parent;
                         self.range_first = 16;
                         self.range_length = 60;
                       }};
  net.run_for(10s);
  EXPECT_FALSE(unproven.is_registered());
  EXPECT_EQ(one.logged("a parent is dialled by its children"), 1);
}

// The parent may see before its child does that the link between them is lost, and have another one by
// then, over which they are peers.
TEST_F(NodeTree, AParentWhoseOnlyLinkIsThatOfAPeerIsDialledAgain) {
  party child{net, 17, plain().parent(address_of(16))};
  {
    party lost{net, 16, plain().children("16/60")};
    ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  }
  ASSERT_TRUE(until([&] { return child.core().parent() == 0; }));
  hand_played parent{net, 16, 17, true, true, [](introduction& self) {
                       self.as = relation::parent;
                       self.range_first = 16;
                       self.range_length = 60;
                     }};
  ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  net.run_for(5s);
  const std::uint64_t dials = child.core().stats().dials;
  const hand_played beside_it{net, 16, 17, true, false};
  net.run_for(5s);
  EXPECT_TRUE(beside_it.is_registered());
  EXPECT_EQ(child.core().parent(), 16);
  EXPECT_EQ(child.core().stats().dials, dials);
  const hand_played alone{net, 16, 17, true, true};
  net.run_for(5s);
  EXPECT_TRUE(alone.is_registered());
  EXPECT_TRUE(parent.has_ended());
  EXPECT_EQ(child.core().parent(), 0);
  EXPECT_TRUE(child.is_connected(16));
  EXPECT_GT(child.core().stats().dials, dials);
}

TEST_F(NodeTree, ANodeIsNotChildAndSiblingAtOnce) {
  party parent{net, 16, plain().children("16/60")};
  party child{net, 17, plain().parent(address_of(16))};
  ASSERT_TRUE(until([&] { return child.core().parent() == 16; }));
  hand_played other{net,  17,   16,
                    true, true, [](introduction& self) { self.as = relation::sibling; }};
  net.run_for(10s);
  EXPECT_FALSE(other.is_registered());
  EXPECT_EQ(parent.logged("node 17 can't be a sibling of node 16: it is a child of it"), 1);
}

TEST_F(NodeTree, ANodeThatEndsDialsItsParentNoMore) {
  party child{net, 17, plain().parent(address_of(16))};
  net.run_for(1s);
  EXPECT_GT(child.core().stats().dials, 1U);
  child.core().leave();
  const std::uint64_t dials = child.core().stats().dials;
  net.run_for(60s);
  EXPECT_EQ(child.core().stats().dials, dials);
}

TEST(NodeTreeOptions, AreRefusedWithTheirNames) {
  const auto why = [](const node_options& options) { return options.check().text(); };
  EXPECT_NE(why(plain().parent("ipv4://nowhere")).find("node_options::parent"), std::string::npos);
  EXPECT_NE(why(node_options{}.parent("dns://a:1")).find("token"), std::string::npos);
  EXPECT_NE(why(plain().children("16")).find("node_options::children"), std::string::npos);
  EXPECT_NE(why(plain().children("17/60")).find("node_options::children"), std::string::npos);
  EXPECT_NE(why(plain().children("0/0")).find("1 to 63 bits"), std::string::npos);
  EXPECT_NE(why(plain().children("16/64")).find("1 to 63 bits"), std::string::npos);
  EXPECT_TRUE(plain().parent("shm://a").parent("unix:///b").children("16/60").check());
}

// Its parent passes on what is not its own as soon as it has taken it in; the child learns of that
// later, and may have another link by then, as a peer.
TEST_F(NodeTree, AParentIsNotChargedWhileItsPeerBecomesItsChild) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulated_network slow{seed};
    slow.conditions.delay_min = 1ms;
    slow.conditions.delay_max = 5ms;
    party parent{slow, 64, plain().children("64/58")};
    party child{slow, 65, plain().parent(address_of(64))};
    ASSERT_TRUE(slow.run_until([&] { return child.core().parent() == 64; }, 60s));
    // At two addresses, so that there are two dials.
    ASSERT_TRUE(parent.core().listen("ipv4://10.0.1.64:7000"));
    party both{slow, 66, plain().parent(address_of(64))};
    EXPECT_TRUE(both.core().connect(64, "ipv4://10.0.1.64:7000"));
    both.node.wake();
    for (int i = 0; i != 400; ++i) {
      (void)child.node.user().broadcast(*id_range::parse("64/58"), 0, as_bytes("text"));
      child.node.wake();
      slow.run_for(250us);
    }
    EXPECT_EQ(both.core().stats().violations, 0U);
    ASSERT_TRUE(slow.run_until([&] { return both.core().parent() == 64; }, 60s));
    const std::uint64_t dials = both.core().stats().dials;
    slow.run_for(60s);
    EXPECT_EQ(both.core().stats().dials, dials) << "it stays linked";
    ASSERT_TRUE(both.core().parent() == 64);
  }
}

// The answer is for an incarnation that is gone.
TEST_F(NodeTree, WhatWaitsForAParentIsNotGivenUpForAnAnswerToIt) {
  std::optional<party> parent(std::in_place, net, 80, plain().children("80/60"));
  party child(net, 81, plain().parent(address_of(80)));
  std::optional<command> asked;
  child.core().handlers().on_command = [&](command& what) { asked.emplace(std::move(what)); };
  ASSERT_TRUE(until([&] { return child.core().parent() == bus_id{80}; }));
  ASSERT_TRUE(
      parent->core().commands().ask(81, {"do it"}, 60s, [](status, const command_reply&) {}));
  parent->node.wake();
  ASSERT_TRUE(until([&] { return asked.has_value(); }));
  parent.reset();
  net.run_for(1s);
  EXPECT_TRUE(child.send(80, "waits"));
  (void)asked->reply({"done"});
  net.run_for(120s);
  EXPECT_EQ(child.reports.size(), 0U);
  parent.emplace(net, 80, plain().children("80/60"));
  ASSERT_TRUE(until([&] { return parent->got.size() == 1; }));
}

// Its host falls silent; its next incarnation calls before the old link is given up, in a poll that also reads
// the end of that link.
TEST(NodeTreeRestart, AParentThatConnectsToItsChildIsFoundAgain) {
  int found = 0;
  constexpr int runs = 60;
  for (int seed = 1; seed <= runs; ++seed) {
    simulated_network net(static_cast<std::uint64_t>(seed));
    net.conditions.delay_min = 1ms;
    net.conditions.delay_max = 5ms;
    std::optional<party> parent(std::in_place, net, 80, plain().children("80/60"));
    party child(net, 81, plain().parent(address_of(80)));
    net.run_for(5s);
    parent->connect(81);
    net.run_for(5s);
    parent->node.channels().fall_silent();
    parent.reset();
    net.run_for(std::chrono::milliseconds(net.draw(3000)));
    parent.emplace(net, 80, plain().children("80/60"));
    parent->connect(81);
    // A game loop of ten frames a second.
    for (const auto end = net.now() + 10s; net.now() < end; net.run_for(100ms))
      child.node.stop_until(net.now() + 100ms - 1us);
    net.run_for(60s);
    found += child.core().parent() == bus_id{80} ? 1 : 0;
  }
  EXPECT_EQ(found, runs);
}

}  // namespace
}  // namespace atbus::detail
