// Children of one parent that find each other, over a simulated network, also with a parent and with
// children that are up to no good.
#include "sanitizer.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class Siblings : public tree_of_six {
 protected:
  // So many from 81, of which few are under way, so that there is a moment to move.
  void send_all(std::uint64_t to, int count, const std::vector<std::string>& got) {
    int sent = 0;
    ASSERT_TRUE(net.run_until(
        [&] {
          while (sent != count && sent < static_cast<int>(got.size()) + 200 &&
                 one->send(to, std::to_string(sent)))
            ++sent;
          return got.size() == static_cast<std::size_t>(count);
        },
        600s));
    EXPECT_EQ(got, numbers(0, count));
  }
  // One message each way between 81 and `other`, without any more help of `by`.
  void expect_direct(std::uint64_t id, std::optional<party>& other, std::optional<party>& by) {
    net.run_for(1s);
    const std::uint64_t before = relayed(by);
    EXPECT_GT(before, 0U) << "the first ones found their way so";
    EXPECT_TRUE(one->send(id, "second"));
    EXPECT_TRUE(other->send(81, "back"));
    ASSERT_TRUE(until([&] { return other->got.size() == 2 && one->got.size() == 1; }));
    EXPECT_EQ(relayed(by), before);
  }
};

TEST_F(Siblings, AreLinkedWhenTheyFirstSpeakToEachOther) {
  EXPECT_TRUE(one->send(82, "first"));
  ASSERT_TRUE(until([&] { return two->got.size() == 1; }));
  expect_direct(82, two, relay_a);
}

TEST_F(Siblings, AreLinkedWhenTheirChildrenSpeakToEachOther) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] {
    return far->got.size() == 1 && relay_a->is_connected(96) && relay_b->is_connected(80);
  }));
  expect_direct(97, far, root);
}

TEST_F(Siblings, AreNotLinkedBeforeThat) {
  EXPECT_TRUE(one->send(80, "up"));
  ASSERT_TRUE(until([&] { return relay_a->got.size() == 1; }));
  net.run_for(10s);
  EXPECT_EQ(one->core().endpoints().size(), 1U);
  EXPECT_EQ(relay_a->core().endpoints().size(), 3U);
}

TEST_F(Siblings, KeepTheOrderWhenTheirOwnMessagesMoveToTheirLink) {
  net.separate(81, 82);
  EXPECT_TRUE(one->send(82, "by way of the parent"));
  ASSERT_TRUE(until([&] { return two->got.size() == 1; }));
  net.run_for(2min);
  net.join(81, 82);
  two->got.clear();
  send_all(82, 10000, two->got);  // asked for again with the 17th batch
  EXPECT_EQ(one->count(endpoint_event::moved), 1);
  EXPECT_GT(relayed(relay_a), 100U);
  EXPECT_LT(relayed(relay_a), 9000U);
}

TEST_F(Siblings, KeepTheOrderWhenMessagesOfTheirChildrenMoveToTheirLink) {
  send_all(97, 3000, far->got);
  EXPECT_GT(relayed(root), 1U);
  EXPECT_LT(relayed(root), 1000U);
}

TEST_F(Siblings, GoOnByWayOfTheParentWhenTheirLinkIsLost) {
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return relay_a->is_connected(96) && relay_b->is_connected(80); }));
  net.run_for(1s);
  net.separate(80, 96);
  ASSERT_TRUE(net.run_until([&] { return !relay_a->is_connected(96); }, 120s));
  EXPECT_TRUE(one->send(97, "around"));
  ASSERT_TRUE(until([&] { return far->got.size() == 2; }));
}

TEST_F(Siblings, ThatCannotBeReachedStayBehindTheParentAndThatIsLoggedOnce) {
  net.conditions.refuses = true;
  for (int minute = 0; minute != 3; ++minute) {
    far->got.clear();
    send_all(97, 10000, far->got);  // enough to be asked for again
    net.run_for(61s);
  }
  const std::uint64_t dials = relay_a->core().stats().dials;
  EXPECT_GE(dials, 4U) << "its parent, and again and again the sibling";
  EXPECT_EQ(relay_a->logged("there is no direct link to 96, which has the same parent: "), 1);
  EXPECT_EQ(relay_a->logged("no connection to " + address_of(96)), 0);
  EXPECT_EQ(relay_a->count(endpoint_event::refused), 0);
  EXPECT_EQ(relay_a->core().endpoints().size(), 3U) << "it is forgotten";
}

TEST_F(Siblings, ThatDoNotAnswerAreNotWaitedFor) {
  net.separate(80, 96);
  net.conditions.connect_timeout = 50s;
  EXPECT_TRUE(one->send(97, "first"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_TRUE(relay_a->send(96, "by way of the parent"));
  EXPECT_TRUE(net.run_until([&] { return relay_b->got.size() == 1; }, 5s)) << "it is still dialled";
}

TEST_F(Siblings, ThatAreConnectedAsPeersStayPeers) {
  relay_a->connect(96);
  ASSERT_TRUE(until([&] { return relay_a->is_connected(96); }));
  for (std::size_t i = 1; i != 4; ++i) {
    const std::uint64_t before = relayed(root);
    EXPECT_TRUE(one->send(97, "by way of the root"));
    ASSERT_TRUE(until([&] { return far->got.size() == i; }));
    EXPECT_GT(relayed(root), before);
  }
  EXPECT_EQ(relay_a->core().stats().links_lost + relay_b->core().stats().violations, 0U);
}

TEST_F(Siblings, ThatAreConnectedAsPeersMeanwhileTakeNoOffence) {
  for (std::uint64_t seed = 0; seed != 50; ++seed) {
    EXPECT_TRUE(one->send(97, "first"));
    net.run_for(std::chrono::microseconds{net.draw(5000)});
    relay_b->connect(80);
    ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
    net.run_for(10s);
    for (auto* by : {&relay_a, &relay_b})
      EXPECT_EQ((*by)->core().stats().violations, 0U) << seed;
    for (auto* by : {&root, &relay_a, &relay_b, &one, &two, &far})
      by->reset();
    SetUp();
  }
}

// What passes through is not sent over a link on which the other end may take it for a forgery.
TEST_F(Siblings, SendWhatIsNotTheirsOverLinksOfSiblingsOnly) {
  const auto say_range = [](introduction& self) {
    self.range_first = 112;
    self.range_length = 60;
  };
  hand_played as_peer{net, 112, 80, true, false, say_range};
  ASSERT_TRUE(until([&] { return as_peer.is_registered(); }));
  net.run_for(10ms);
  EXPECT_TRUE(relay_a->send(112, "so that the link is in use"));
  hand_played as_sibling{net, 112, 80, true, false, [&](introduction& self) {
                           say_range(self);
                           self.as = relation::sibling;
                         }};
  ASSERT_TRUE(until([&] { return as_sibling.is_registered(); }));
  net.run_for(10ms);
  EXPECT_TRUE(one->send(113, "below it"));
  ASSERT_TRUE(until([&] { return as_sibling.heard(message_kind::routed) != 0; }));
  EXPECT_EQ(as_peer.heard(message_kind::routed), 0);
  EXPECT_FALSE(as_peer.has_ended());
}

TEST_F(Siblings, AreTheSameForABroadcast) {
  EXPECT_TRUE(one->send(97, "first"));
  EXPECT_TRUE(one->send(82, "first"));
  ASSERT_TRUE(until([&] { return relay_a->is_connected(96) && one->is_connected(82); }));
  net.run_for(1s);
  EXPECT_TRUE(relay_a->node.user().broadcast(*id_range::parse("64/58"), 7, as_bytes("all")));
  relay_a->node.wake();
  net.run_for(1s);
  for (auto* by : {&root, &relay_b, &one})
    EXPECT_EQ((*by)->got, std::vector<std::string>{"all"});
  for (auto* by : {&two, &far})
    EXPECT_EQ((*by)->got, (std::vector<std::string>{"first", "all"}));
}

TEST_F(Siblings, AreToldToChildrenOnlyAndNotEndlessly) {
  hand_played asker{net, 83, 80, true, true, [](introduction& self) { self.as = relation::child; }};
  hand_played unproven{net, 200, 80, true};
  hand_played sibling{net,  120,  80,
                      true, true, [](introduction& self) { self.as = relation::sibling; }};
  ASSERT_TRUE(until([&] {
    return asker.is_registered() && unproven.is_registered() && sibling.is_registered();
  }));
  net.run_for(10ms);
  for (const std::uint64_t id : {0U, 80U, 83U, 84U, 96U, 97U, 200U, 1000U})
    asker.say(where_body{.id = id});
  unproven.say(where_body{.id = 82});
  sibling.say(where_body{.id = 82});
  net.run_for(1s);
  EXPECT_EQ(asker.heard(message_kind::found), 0);
  EXPECT_EQ(unproven.heard(message_kind::found), 0);
  EXPECT_EQ(sibling.heard(message_kind::found), 0);
  for (int i = 0; i != 1000; ++i)
    asker.say(where_body{.id = 82});
  net.run_for(1s);
  EXPECT_EQ(asker.heard(message_kind::found), 2 * sibling_search::questions_max);
  EXPECT_LE(relay_a->logged("asks for siblings too often"), 2);
  EXPECT_TRUE(one->send(82, "undisturbed"));
  ASSERT_TRUE(until([&] { return one->is_connected(82) && two->got.size() == 1; }));
  EXPECT_FALSE(asker.has_ended());
}

// Who has dialled a sibling refuses it when its parent is lost meanwhile; the sibling may have registered
// already, and sent.
TEST(SiblingsOfOneHost, LoseNothingWheneverTheParentIsLost) {
  std::ptrdiff_t refused = 0;
  for (auto lost_after = 0us; lost_after < 3ms; lost_after += test::one_moment_in * 25us) {
    simulated_network net{static_cast<std::uint64_t>(lost_after.count()) + 1};
    party parent{net, 16, plain().children("16/60")};
    party one{net, 17, plain().parent(address_of(16)), host_of(1)};
    party two{net, 18, plain().parent(address_of(16)), host_of(1)};
    ASSERT_TRUE(two.core().listen("shm://two"));
    ASSERT_TRUE(
        net.run_until([&] { return one.core().parent() == 16 && two.core().parent() == 16; }, 60s));
    std::size_t sent = 0;
    const auto send_for = [&](std::chrono::nanoseconds time) {
      for (const auto end = net.now() + time; net.now() < end; net.run_for(25us))
        sent += two.send(17, std::to_string(sent)) ? 1 : 0;
    };
    EXPECT_TRUE(one.send(18, "first"));
    send_for(lost_after);
    net.cut(17, 16, seen_by::both);
    send_for(30ms);
    ASSERT_TRUE(net.run_until([&] { return one.got.size() + two.reports.size() >= sent; }, 120s))
        << lost_after.count() << " us: " << sent << " sent, " << one.got.size() << " came, "
        << two.reports.size() << " were reported";
    refused += one.logged("which has no parent now");
  }
  EXPECT_GT(refused, 0) << "the moment that this is about has come";
}

// Node 17, and what calls itself its parent: node 16, with children 0x0 to 0xffff.
class HostileParent : public ::testing::Test {
 protected:
  void SetUp() override {
    child.emplace(net, 17, plain().parent(address_of(16)));
    {
      party honest{net, 16, plain().children("0/48")};
      ASSERT_TRUE(until([&] { return child->core().parent() == 16; }));
    }
    ASSERT_TRUE(until([&] { return child->core().parent() == 0; }));
    parent.emplace(net, 16, 17, true, true, [](introduction& self) {
      self.as = relation::parent;
      self.range_length = 48;
    });
    ASSERT_TRUE(until([&] { return child->core().parent() == 16; }));
    net.run_for(5s);  // it does not look for the other one any more
  }
  bool until(const std::function<bool()>& holds) { return net.run_until(holds, 60s); }
  void make_it_ask(std::uint64_t id) {
    const auto before = parent->heard(message_kind::where);
    EXPECT_TRUE(child->send(id, "for nobody"));
    EXPECT_TRUE(until([&] { return parent->heard(message_kind::where) == before + 1; }));
  }
  // How many dials follow.
  std::uint64_t dials_after(const found_body& told) {
    const std::uint64_t before = child->core().stats().dials;
    parent->say(told);
    net.run_for(10ms);
    return child->core().stats().dials - before;
  }

  simulated_network net{1};
  std::optional<party> child;
  std::optional<hand_played> parent;
};

TEST_F(HostileParent, IsNotListenedToWhenItWasNotAsked) {
  const std::vector<std::string> somewhere{address_of(18)};
  EXPECT_EQ(dials_after({.asked = 18, .id = 18, .addresses = somewhere}), 0U);
  EXPECT_EQ(dials_after({.asked = 0, .id = 18, .addresses = somewhere}), 0U);
  make_it_ask(18);
  EXPECT_EQ(dials_after({.asked = 0, .id = 18, .addresses = somewhere}), 0U);
  EXPECT_EQ(dials_after({.asked = 18 + 64, .id = 18, .addresses = somewhere}), 0U);
  EXPECT_EQ(dials_after({.asked = 18, .id = 18, .addresses = somewhere}), 1U);
  net.run_for(100ms);
  EXPECT_EQ(dials_after({.asked = 18, .id = 18, .addresses = somewhere}), 0U) << "said once";
  EXPECT_EQ(child->core().parent(), 16);
}

TEST_F(HostileParent, IsLeftWhenItNamesWhatCannotBeASibling) {
  for (const std::uint64_t id : {0U, 0x10000U, 17U, 16U}) {
    make_it_ask(18);
    EXPECT_EQ(dials_after({.asked = 18, .id = id, .addresses = {address_of(18)}}), 0U);
    EXPECT_EQ(child->core().parent(), 0) << id;
    EXPECT_TRUE(parent->has_ended());
    TearDown();
    parent.reset();
    child.reset();
    SetUp();
  }
}

TEST_F(HostileParent, DoesNotHaveTheNodeDialAbsurdities) {
  make_it_ask(18);
  EXPECT_EQ(dials_after({.asked = 18,
                         .id = 18,
                         .addresses = {"unix:///run/important", "shm://important", "mem://a",
                                       "ipv4://127.0.0.1:22", "ipv4://0.0.0.0:22",
                                       "ipv4://224.0.0.1:1", "dns://example.org:80", "nonsense"}}),
            0U);
  EXPECT_EQ(child->logged("no direct link to 18"), 1);
  EXPECT_EQ(child->core().parent(), 16);
}

TEST_F(HostileParent, DoesNotTroubleTheUserWithWhoRefusesToBeASibling) {
  party unproven{net, 18};
  make_it_ask(18);
  EXPECT_EQ(dials_after({.asked = 18, .id = 18, .addresses = {address_of(18)}}), 1U);
  ASSERT_TRUE(until([&] { return child->logged("no direct link to 18") == 1; }));
  EXPECT_EQ(child->logged("registration"), 0);
  EXPECT_EQ(child->count(endpoint_event::refused), 0);
  EXPECT_EQ(unproven.logged("which has no parent now"), 1);
}

TEST_F(HostileParent, DoesNotHaveTheNodeDialEndlessly) {
  make_it_ask(18);
  found_body told{.asked = 18, .id = 18, .addresses = {}};
  for (std::size_t i = 0; i != addresses_max; ++i)
    told.addresses.push_back("ipv4://10.1.0." + std::to_string(i) + ":7000");
  EXPECT_EQ(dials_after(told), 8U);
  net.run_for(5min);
  EXPECT_EQ(child->logged("no direct link to 18"), 1);
}

TEST_F(HostileParent, IsNotAskedWhenThereAreManySiblings) {
  std::vector<std::unique_ptr<hand_played>> siblings;
  for (std::uint64_t id = 0x100; id != 0x200; ++id) {
    siblings.push_back(std::make_unique<hand_played>(
        net, id, 17, true, true, [](introduction& self) { self.as = relation::sibling; }));
  }
  ASSERT_TRUE(until([&] { return child->core().endpoints().size() == 257; }));
  EXPECT_TRUE(child->send(18, "for nobody"));
  net.run_for(1s);
  EXPECT_EQ(parent->heard(message_kind::where), 0);
}

TEST_F(Siblings, ThatAreConnectedByTheirUserLaterAreDialledAgainWithoutTheirParent) {
  EXPECT_TRUE(relay_a->send(96, "first"));
  ASSERT_TRUE(until([&] { return relay_a->logged("96 go through") == 1; }));
  EXPECT_TRUE(relay_a->core().connect(96, address_of(96)));
  net.run_for(1s);
  root.reset();
  relay_b.reset();
  net.run_for(10s);
  relay_b.emplace(net, 96, relay_options("96/60"));
  EXPECT_TRUE(relay_a->send(96, "second"));
  ASSERT_TRUE(until([&] { return relay_b->got.size() == 1; }));
}

TEST_F(Siblings, ThatAreConnectedWhileTheyAreAwayAreWaitedForWithoutEnd) {
  net.separate(80, 96);
  EXPECT_TRUE(relay_a->send(96, "first"));
  ASSERT_TRUE(until([&] { return relay_b->got.size() == 1; }));
  net.run_for(1s);
  relay_b.reset();
  EXPECT_TRUE(relay_a->send(96, "second"));
  net.run_for(3s);
  // It is dialled there already, since the parent has told of it.
  EXPECT_TRUE(relay_a->core().connect(96, address_of(96)));
  EXPECT_TRUE(relay_a->send(96, "third"));
  net.run_for(120s);
  EXPECT_EQ(relay_a->reports.size(), 0U);
  net.join(80, 96);
  root.reset();
  relay_b.emplace(net, 96, relay_options("96/60"));
  ASSERT_TRUE(until([&] { return relay_b->got.size() == 2; }));
  EXPECT_EQ(relay_b->got, (std::vector<std::string>{"second", "third"}));
}

}  // namespace
}  // namespace atbus::detail
