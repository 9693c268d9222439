// Topics between nodes of a simulated network: who gets what, and by which links.
#include "atbus/topic.hpp"

#include "atbus/atbus.hpp"
#include "unit/node/core/topics_fixture.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

TEST_F(Topics, ComeFromANodeToOneThatIsConnectedToIt) {
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  settle();
  topic news{sim.node(1), "news"};
  EXPECT_EQ(news.links(), 1U);
  const publication sent = news.publish(7, "one");
  EXPECT_TRUE(sent);
  EXPECT_EQ(sent.links(), 1U);
  news.publish(7, "two");
  settle();
  EXPECT_EQ(got[2], (record{says(1, "one"), says(1, "two")}));
  EXPECT_EQ(sim.node(1).stats().published, 2U);
  EXPECT_EQ(sim.node(2).stats().topic_messages, 2U);
}

TEST_F(Topics, GoToAllOfATreeWithOneCopyOverEachLink) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  for (const std::uint64_t leaf : {0x111U, 0x112U, 0x113U, 0x121U, 0x122U})
    start_leaf(leaf);
  settle();
  for (const std::uint64_t leaf : {0x111U, 0x112U, 0x113U, 0x122U})
    subscribe(leaf);
  subscribe(0x110);
  settle();
  topic news{sim.node(0x121), "news"};
  const auto copies = [&](std::uint64_t id) { return sim.node(id).stats().topic_copies; };
  const std::map<std::uint64_t, std::uint64_t> before{{0x121, copies(0x121)},
                                                      {0x120, copies(0x120)},
                                                      {0x100, copies(0x100)},
                                                      {0x110, copies(0x110)}};
  EXPECT_EQ(news.publish(0, "x").links(), 1U);
  settle();
  for (const std::uint64_t one : {0x110U, 0x111U, 0x112U, 0x113U, 0x122U})
    EXPECT_EQ(got[one], (record{says(0x121, "x")})) << one;
  EXPECT_EQ(copies(0x121) - before.at(0x121), 1U);
  EXPECT_EQ(copies(0x120) - before.at(0x120), 2U) << "up, and to 0x122";
  EXPECT_EQ(copies(0x100) - before.at(0x100), 1U) << "to 0x110 alone";
  EXPECT_EQ(copies(0x110) - before.at(0x110), 3U);
}

TEST_F(Topics, ThatNobodyWantsGoNowhere) {
  start_root();
  start_relay(0x110);
  start_leaf(0x111);
  settle();
  topic news{sim.node(0x111), "news"};
  const publication sent = news.publish(0, "x");
  EXPECT_TRUE(sent);
  EXPECT_EQ(sent.links(), 0U);
  settle();
  EXPECT_EQ(sim.node(0x111).stats().topic_copies, 0U);
}

TEST_F(Topics, OfANodesOwnComeWithTheNextPoll) {
  start(1);
  subscribe(1);
  topic news{sim.node(1), "news"};
  EXPECT_EQ(news.publish(0, "x").links(), 1U);
  EXPECT_TRUE(got[1].empty());
  settle();
  EXPECT_EQ(got[1], (record{says(1, "x")}));
}

TEST_F(Topics, AreSeenByWhoComesLateFromThenOn) {
  start(1);
  topic news{sim.node(1), "news"};
  news.publish(0, "one");
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  settle();
  news.publish(0, "two");
  settle();
  EXPECT_EQ(got[2], (record{says(1, "two")}));
}

TEST_F(Topics, EndWithTheSubscription) {
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  settle();
  topic news{sim.node(1), "news"};
  news.publish(0, "one");
  settle();
  EXPECT_TRUE(sim.node(2).unsubscribe("news"));
  EXPECT_EQ(sim.node(2).unsubscribe("news").code(), errc::not_found);
  settle();
  EXPECT_EQ(news.links(), 0U);
  news.publish(0, "two");
  settle();
  subscribe(2);
  settle();
  news.publish(0, "three");
  settle();
  EXPECT_EQ(got[2], (record{says(1, "one"), says(1, "three")}));
}

// The subscriber has not left: what a stream begins with is owed to it, though it does not know it yet.
TEST_F(Topics, TellWhatAStreamBeganWithIfItWasDroppedWhileThereWasNoLink) {
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(1).connect(2, address_of(2)));
  for (const unsigned waiting : {1U, 2U}) {
    const std::string name = "news " + std::to_string(waiting);
    subscribe(2, name, {.waiting = waiting});
  }
  settle();
  sim.cut(1, 2);
  sim.separate(1, 2);
  sim.run_for(1s);
  topic one{sim.node(1), "news 1"};
  for (const char* const text : {"a", "b", "c"})
    EXPECT_EQ(one.publish(0, text).links(), 1U);
  topic two{sim.node(1), "news 2"};
  for (const char* const text : {"d", "e", "f"})
    EXPECT_EQ(two.publish(0, text).links(), 1U);
  sim.join(1, 2);
  sim.run_for(60s);
  EXPECT_EQ(got[2], (record{missed(1, 2), missed(1, 1), says(1, "c"), says(1, "e"), says(1, "f")}));
}

// The link is full of another stream of the topic when it is back, so the answer comes before the marks of what was
// dropped.
TEST_F(Topics, TellWhatAStreamBeganWithAlsoIfTheAnswerToInterestComesFirst) {
  sim.conditions().kernel_holds = 4096;
  sim.conditions().queue_size = 8192;
  start(0x100, node_options{}.children("0x100/56").message_limit(1024).send_buffer_size(65536));
  start_leaf(0x101);
  start_leaf(0x102);
  settle();
  subscribe(0x102, "news", {.slow = overflow_policy::drop_newest, .waiting = 50});
  settle();
  sim.stop_for(0x102, 2s);
  topic before{sim.node(0x101), "news"};
  for (int i = 0; i != 80; ++i) {
    EXPECT_TRUE(before.publish(0, std::string(900, 'x')));
    sim.run_for(10ms);
  }
  sim.cut(0x100, 0x102);
  sim.separate(0x100, 0x102);
  sim.run_for(3s);
  topic news{sim.node(0x100), "news"};
  for (const char* const text : {"a", "b"})
    EXPECT_EQ(news.publish(0, text).links(), 1U);
  sim.join(0x100, 0x102);
  sim.run_for(20s);
  EXPECT_EQ(std::ranges::count(got[0x102], missed(0x100, 2)), 1);
}

// It is not forgotten with its link, though this node would not dial it.
TEST_F(Topics, AreOwedToASubscriberThatIsAwayAndDialsItsPublisher) {
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2, "news", {.waiting = 1});
  settle();
  sim.cut(1, 2);
  sim.separate(1, 2);
  sim.run_for(1s);
  topic news{sim.node(1), "news"};
  for (const char* const text : {"a", "b"})
    EXPECT_EQ(news.publish(0, text).links(), 1U);
  sim.join(1, 2);
  sim.run_for(60s);
  EXPECT_EQ(got[2], (record{missed(1, 1), says(1, "b")}));
  EXPECT_EQ(sim.node(1).endpoints().size(), 1U);
  sim.kill(2);
  sim.run_for(60s);
  EXPECT_EQ(news.links(), 0U);
  EXPECT_TRUE(sim.node(1).endpoints().empty()) << "after first_idle_timeout";
}

// Others want it all the time, so this node is told where the stream is, as is who asks it then.
TEST_F(Topics, AreNotMissedThatWerePublishedWhileNobodyHereHadSubscribed) {
  start_root();
  for (const std::uint64_t relay : {0x110U, 0x120U, 0x130U})
    start_relay(relay);
  start_leaf(0x111);
  start_leaf(0x112);
  settle();
  for (const std::uint64_t id : {0x111U, 0x120U, 0x130U})
    subscribe(id);
  settle();
  topic news{sim.node(0x100), "news"};
  topic from_child{sim.node(0x130), "news"};
  const auto publish = [&](const std::string& text) {
    news.publish(0, text);
    from_child.publish(0, text);
    settle();
  };
  publish("1");
  for (const std::uint64_t id : {0x111U, 0x120U})
    EXPECT_TRUE(sim.node(id).unsubscribe("news"));
  settle();
  for (const char* const text : {"2", "3", "4"})
    publish(text);
  for (const std::uint64_t id : {0x112U, 0x120U})
    subscribe(id);
  settle();
  publish("5");
  const auto sorted = [this](std::uint64_t id) {
    std::ranges::sort(got[id]);
    return got[id];
  };
  EXPECT_EQ(sorted(0x120),
            (record{says(0x100, "1"), says(0x100, "5"), says(0x130, "1"), says(0x130, "5")}));
  EXPECT_EQ(sorted(0x112), (record{says(0x100, "5"), says(0x130, "5")}));
}

// What waited at the publisher comes before its answer, and says nothing of what the subscription before has had.
TEST_F(Topics, AreNotMissedIfTheSubscriptionIsMadeAnewWhenTheLinkIsBack) {
  bool makes_anew = false;
  start(1);
  start(2, {}, [&](node& n) {
    n.on_endpoint([&, subscriber = &n](const endpoint&, endpoint_event change) {
      if (!makes_anew || change != endpoint_event::connected)
        return;
      EXPECT_TRUE(subscriber->unsubscribe("news"));
      subscribe(2);
    });
  });
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  settle();
  topic news{sim.node(1), "news"};
  for (int i = 0; i != 3; ++i)
    news.publish(0, "a");
  settle();
  makes_anew = true;
  sim.cut(1, 2);
  sim.separate(1, 2);
  sim.run_for(1s);
  news.publish(0, "b");
  sim.join(1, 2);
  sim.run_for(10s);
  EXPECT_EQ(got[2], (record{says(1, "a"), says(1, "a"), says(1, "a"), says(1, "b")}));
}

TEST_F(Topics, OfARelayThatRestartsAreMissedAloud) {
  start_root();
  start_relay(0x110);
  start_leaf(0x111);
  settle();
  subscribe(0x111);
  settle();
  topic news{sim.node(0x100), "news"};
  news.publish(0, "one");
  settle();
  sim.kill(0x110);
  news.publish(0, "two");
  sim.run_for(1s);
  news.publish(0, "three");
  sim.run_for(1s);
  sim.restart(0x110);
  sim.run_for(20s);
  std::uint64_t known = 0;
  for (const std::string& line : got[0x111])
    known += line.find("missed 2") != std::string::npos ? 2 : 1;
  EXPECT_EQ(known, 3U) << ::testing::PrintToString(got[0x111]);
  news.publish(0, "four");
  settle();
  EXPECT_EQ(got[0x111].back(), says(0x100, "four"));
}

TEST_F(Topics, OfAPublisherThatRestartsGoOn) {
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  settle();
  for (int life = 0; life != 3; ++life) {
    {
      topic news{sim.node(1), "news"};
      news.publish(0, "one");
      news.publish(0, "two");
    }
    settle();
    sim.restart(1);
    sim.run_for(20s);
  }
  EXPECT_EQ(got[2], (record{says(1, "one"), says(1, "two"), says(1, "one"), says(1, "two"),
                            says(1, "one"), says(1, "two")}));
}

TEST_F(Topics, ComeOnceToAPeerThatIsInTheTreeToo) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  settle();
  ASSERT_TRUE(sim.node(0x120).connect(0x110, address_of(0x110)));
  settle();
  subscribe(0x120);
  settle();
  topic news{sim.node(0x110), "news"};
  for (int i = 0; i != 5; ++i)
    news.publish(0, std::to_string(i));
  settle();
  EXPECT_EQ(got[0x120], (record{says(0x110, "0"), says(0x110, "1"), says(0x110, "2"),
                                says(0x110, "3"), says(0x110, "4")}));
}

// What comes by one way is known by the other one, though no object of the topic lives as long.
TEST_F(Topics, ComeOnceToAPeerInTheTreeAlsoByAnObjectForEachMessage) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  settle();
  ASSERT_TRUE(sim.node(0x120).connect(0x110, address_of(0x110)));
  subscribe(0x120);
  settle();
  record published;
  for (int i = 0; i != 100; ++i) {
    published.push_back(says(0x110, std::to_string(i)));
    topic{sim.node(0x110), "news"}.publish(0, std::to_string(i));
    if (i % 10 == 9)
      sim.run_for(100ms);
  }
  settle();
  EXPECT_EQ(got[0x120], published);
}

TEST_F(Topics, ComeOnceToAPeerInTheTreeAlsoIfTheirPublisherRestartsAgainAndAgain) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  settle();
  ASSERT_TRUE(sim.node(0x120).connect(0x110, address_of(0x110)));
  subscribe(0x120);
  settle();
  sim.stop_for(0x100, 20s);
  record published;
  for (int life = 0; life != 4; ++life) {
    {
      topic news{sim.node(0x110), "news"};
      for (int i = 0; i != 5; ++i) {
        published.push_back(says(0x110, std::to_string(10 * life + i)));
        news.publish(0, std::to_string(10 * life + i));
      }
      sim.run_for(3s);
    }
    if (life != 3) {
      sim.restart(0x110);
      sim.run_for(1s);
    }
  }
  sim.run_for(60s);
  EXPECT_EQ(got[0x120], published);
}

// A publisher below the root, and a peer of its that has another way to it over the root. The peer has begun with it, and
// the link between them is lost while a stream begins; over the root that stream begins for the peer later.
class TwoWays : public Topics {
 protected:
  void SetUp() override {
    start_root();
    start_relay(0x110);
    settle();
    sim.separate(0x100, 0x120);
    start_relay(0x120);
    ASSERT_TRUE(sim.node(0x110).connect(0x120, address_of(0x120)));
    subscribe(0x120);
    settle();
    sim.cut(0x110, 0x120);
    sim.separate(0x110, 0x120);
    sim.run_for(1s);
    news = std::make_unique<topic>(sim.node(0x110), "news");
    EXPECT_EQ(news->publish(0, "1").links(), 1U);
    EXPECT_EQ(news->publish(0, "2").links(), 1U);
    sim.join(0x100, 0x120);
    EXPECT_TRUE(sim.run_until([this] { return news->links() == 2; }, 20s));
    settle();
    EXPECT_TRUE(got[0x120].empty());
  }
  void TearDown() override { news.reset(); }

  std::unique_ptr<topic> news;
};

TEST_F(TwoWays, BringWhatOneOfThemOwesFromAnEarlierNumberOn) {
  sim.join(0x110, 0x120);
  sim.run_for(20s);
  EXPECT_EQ(got[0x120], (record{says(0x110, "1"), says(0x110, "2")}));
}

// It may have handled by one way what the other one brings to its next incarnation.
TEST_F(TwoWays, MarkWhatAKilledSubscriberMayHaveHadByTheOtherOne) {
  sim.join(0x110, 0x120);
  sim.run_for(5s);
  EXPECT_EQ(got[0x120].size(), 2U);
  sim.cut(0x100, 0x110);
  sim.separate(0x100, 0x110);
  sim.run_for(1s);
  EXPECT_EQ(news->publish(0, "3").links(), 2U);
  settle();
  EXPECT_EQ(got[0x120].back(), says(0x110, "3")) << "by the direct one";
  sim.separate(0x110, 0x120);
  sim.restart(0x120);
  unsigned marked = 0;
  EXPECT_TRUE(sim.node(0x120).connect(0x110, address_of(0x110)));
  EXPECT_TRUE(sim.node(0x120).subscribe("news", [&](const topic_message& m) {
    EXPECT_EQ(m.text(), "3");
    marked += m.redelivered() ? 1 : 0;
  }));
  settle();
  sim.join(0x100, 0x110);
  sim.run_for(10s);
  EXPECT_EQ(marked, 1U);
}

// A chain that is longer than a copy goes.
TEST_F(Topics, AreCountedWhereTheyHaveComeAsFarAsTheyMay) {
  constexpr std::uint64_t links = 18;
  // Each has half of the ids that the one above it has.
  const auto id_of = [](std::uint64_t depth) {
    return (std::uint64_t{2} << 20) - (std::uint64_t{1} << (20 - depth));
  };
  unsigned told = 0;
  for (std::uint64_t depth = 0; depth <= links; ++depth) {
    node_options options;
    options.children(bus_id{id_of(depth)}.to_string() + "/" + std::to_string(44 + depth));
    if (depth != 0)
      options.parent(address_of(depth - 1));
    sim.start(
        id_of(depth),
        [&](node& n) {
          ASSERT_TRUE(n.listen(address_of(depth)));
          n.on_log([&](std::string_view text) {
            told += text.find("as many links as they may") != std::string_view::npos ? 1 : 0;
          });
        },
        host(id_of(depth), options));
    subscribe(id_of(depth));
    settle();
  }
  topic news{sim.node(id_of(0)), "news"};
  news.publish(0, "a");
  settle();
  std::uint64_t drops = 0;
  for (std::uint64_t depth = 0; depth <= links; ++depth) {
    const record had = got[id_of(depth)];
    EXPECT_EQ(had.size(), depth <= 16 ? 1U : 0U) << depth;
    drops += sim.node(id_of(depth)).stats().topic_drops;
  }
  EXPECT_EQ(drops, 1U);
  EXPECT_EQ(told, 1U);
}

// What was published long after it began has not been handled before it did.
TEST_F(Topics, AreNotMarkedForEverWhereTheirPublisherCannotBeReachedDirectly) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  ASSERT_TRUE(sim.node(0x120).connect(0x110, "ipv4://10.9.9.9:1"));
  std::vector<bool> marked;
  ASSERT_TRUE(sim.node(0x120).subscribe(
      "news", [&](const topic_message& m) { marked.push_back(m.redelivered()); }));
  settle();
  topic news{sim.node(0x110), "news"};
  news.publish(0, "soon");
  sim.run_for(60s);
  news.publish(0, "later");
  settle();
  EXPECT_EQ(marked, (std::vector<bool>{true, false}));
}

TEST_F(TwoWays, TellWhatOneOfThemOwesIfALaterOneHasComeTheOtherWay) {
  news->publish(0, "3");
  settle();
  EXPECT_EQ(got[0x120], (record{says(0x110, "3")}));
  sim.join(0x110, 0x120);
  sim.run_for(20s);
  EXPECT_EQ(got[0x120], (record{says(0x110, "3"), missed(0x110, 2)}));
  news->publish(0, "4");
  settle();
  EXPECT_EQ(got[0x120], (record{says(0x110, "3"), missed(0x110, 2), says(0x110, "4")}));
}

TEST_F(Topics, AreNotToBeOfAnyNameOrSize) {
  start(1);
  node& one = sim.node(1);
  const auto nothing = [](const topic_message&) {};
  for (const std::string& name : {std::string{}, std::string(129, 'x'), std::string{"a\nb"}}) {
    EXPECT_EQ(one.subscribe(name, nothing).code(), errc::invalid_argument);
    EXPECT_EQ((topic{one, name}.publish(0, "x").how()), errc::invalid_argument);
  }
  EXPECT_EQ(one.subscribe("x", {}).code(), errc::invalid_argument);
  EXPECT_EQ(one.subscribe("x", nothing, {.waiting = 0}).code(), errc::invalid_argument);
  EXPECT_EQ(one.subscribe("x", nothing, {.slow = overflow_policy::disconnect}).code(),
            errc::invalid_argument);
  EXPECT_EQ(one.subscribe("x", nothing, {.waiting = 65537}).code(), errc::invalid_argument);
  const std::size_t most = node_options{}.message_limit() - topic::overhead("x");
  topic x{one, "x"};
  EXPECT_TRUE(x.publish(0, std::string(most, 'x')));
  EXPECT_EQ(x.publish(0, std::string(most + 1, 'x')).how(), errc::message_too_large);
  for (int i = 0; i != 4096; ++i)
    ASSERT_TRUE(one.subscribe(std::to_string(i), nothing));
  EXPECT_EQ(one.subscribe("x", nothing).code(), errc::invalid_argument);
  EXPECT_TRUE(one.subscribe("7", nothing)) << "again";
  sim.kill(1);
  EXPECT_EQ(x.publish(0, "x").how(), errc::closed);
}

TEST_F(Topics, MayBeEndedByTheirOwnHandlers) {
  start(1);
  node& one = sim.node(1);
  int calls = 0;
  ASSERT_TRUE(one.subscribe("x", [&](const topic_message&) {
    ++calls;
    EXPECT_TRUE(one.unsubscribe("x"));
  }));
  topic x{one, "x"};
  x.publish(0, "1");
  x.publish(0, "2");
  settle();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace atbus
