// Topics between nodes of a simulated network: who gets what, by which links, and what slow subscribers miss.
#include "atbus/topic.hpp"

#include <list>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "test.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

// What one subscriber was told, in order: "7: text", and "7 missed 3".
using record = std::vector<std::string>;

subscription_options into(record& all, subscription_options made = {}) {
  made.on_missed = [&all](bus_id from, std::uint64_t messages) {
    all.push_back(from.to_string() + " missed " + std::to_string(messages));
  };
  return made;
}
auto writer(record& all) {
  return [&all](const topic_message& m) {
    all.push_back(m.publisher().to_string() + ": " + std::string{m.text()});
  };
}
std::string says(std::uint64_t id, const std::string& text) {
  return bus_id{id}.to_string() + ": " + text;
}
std::string missed(std::uint64_t id, std::uint64_t messages) {
  return bus_id{id}.to_string() + " missed " + std::to_string(messages);
}
std::string address_of(std::uint64_t id) {
  return "ipv4://10.0.0.1:" + std::to_string(7000 + id);
}

class Topics : public ::testing::Test {
 protected:
  // Each on a host of its own.
  testing::process_options host(std::uint64_t id, node_options options = {}) {
    return {.node = options.allow_unauthenticated(), .host = static_cast<unsigned>(id)};
  }
  void start(std::uint64_t id, node_options options = {}, std::function<void(node&)> program = {}) {
    sim.start(
        id,
        [id, program = std::move(program)](node& n) {
          ASSERT_TRUE(n.listen(address_of(id)));
          if (program)
            program(n);
        },
        host(id, options));
  }
  void subscribe(std::uint64_t id, const std::string& name = "news",
                 subscription_options how = {}) {
    ASSERT_TRUE(sim.node(id).subscribe(name, writer(got[id]), into(got[id], how)));
  }
  // A root 0x100 with relays 0x110, 0x120, ... and leaves below these.
  void start_root() { start(0x100, node_options{}.children("0x100/56")); }
  void start_relay(std::uint64_t id) {
    start(id, node_options{}.parent(address_of(0x100)).children(bus_id{id}.to_string() + "/60"));
  }
  void start_leaf(std::uint64_t id) {
    start(id, node_options{}.parent(address_of(id & ~std::uint64_t{15})));
  }
  void settle() { sim.run_for(2s); }

  testing::simulation sim{1};
  std::map<std::uint64_t, record> got;
};

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

// There is room for one copy at a time.
TEST_F(Topics, ThatShareAFullLinkHaveTheirTurn) {
  sim.conditions().kernel_holds = 2048;
  sim.conditions().queue_size = 1500;
  start(1, node_options{}.message_limit(1024).send_buffer_size(65536));
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  std::map<std::string, int> of_topic;
  std::list<topic> all;
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_TRUE(sim.node(2).subscribe(
        name, [&of_topic, name](const topic_message&) { ++of_topic[name]; }, {.waiting = 8}));
    all.emplace_back(sim.node(1), name);
  }
  settle();
  for (int i = 0; i != 2000; ++i) {
    if (i == 1000)
      of_topic.clear();
    for (topic& one : all)
      one.publish(0, std::string(900, 'x'));
    sim.run_for(100us);
  }
  EXPECT_EQ(of_topic.size(), 3U);
  for (const auto& [name, messages] : of_topic)
    EXPECT_GT(4 * messages, of_topic["a"]) << name;
  EXPECT_LT(of_topic["a"], 900) << "the link is not full";
}

// Copies alone would fill the link whenever there is room.
TEST_F(Topics, LetMessagesByNameHaveTheirTurn) {
  sim.conditions().kernel_holds = 4096;
  sim.conditions().queue_size = 4096;
  start(1, node_options{}.message_limit(1024).send_buffer_size(65536));
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2);
  int named = 0;
  sim.node(2).on_message([&](const message&) { ++named; });
  settle();
  topic news{sim.node(1), "news"};
  node& sender = sim.node(1);
  int writable = 0;
  int sent = 0;
  const auto send_all = [&] {
    while (sender.send(2, 0, std::string(500, 'y')))
      ++sent;
  };
  bool goes_on = true;
  sender.on_writable([&](bus_id) {
    ++writable;
    if (goes_on)
      send_all();
  });
  for (int i = 0; i != 2000; ++i) {
    for (int burst = 0; burst != 20; ++burst)
      news.publish(0, std::string(500, 'x'));
    if (i == 100)
      send_all();
    sim.run_for(1ms);
  }
  const std::size_t copies = got[2].size();
  EXPECT_GT(writable, 10);
  goes_on = false;
  sim.run_for(60s);
  EXPECT_EQ(named, sent);
  EXPECT_GT(copies, 100U) << "nor do messages keep copies from leaving";
}

// A subscriber that is stopped while a publisher goes on, over a link that holds little.
class SlowSubscribers : public Topics {
 protected:
  void SetUp() override {
    sim.conditions().kernel_holds = 4096;
    start(1, node_options{}.message_limit(1024).send_buffer_size(4096));
    start(2);
    ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  }
  // Publishes while node 2 is stopped; then it goes on. Returns how many were refused.
  unsigned publish_to_stopped(topic& news, unsigned messages) {
    settle();
    sim.stop_for(2, 3s);
    unsigned refused = 0;
    for (unsigned i = 0; i != messages; ++i) {
      sim.run_for(1ms);
      const publication sent = news.publish(0, text_of(i));
      refused += sent.how() == errc::would_block ? 1 : 0;
    }
    sim.run_for(20s);
    return refused;
  }
  static std::string text_of(unsigned i) { return std::string(500, 'x') + std::to_string(i); }
  // Each message is in `got`, or was missed; in order.
  void expect_whole(unsigned messages) {
    unsigned next = 0;
    for (const std::string& line : got[2]) {
      const std::string lost = missed(1, 0).substr(0, missed(1, 0).size() - 1);
      if (line.starts_with(lost))
        next += static_cast<unsigned>(std::stoul(line.substr(lost.size())));
      else
        EXPECT_EQ(line, says(1, text_of(next++)));
    }
    EXPECT_EQ(next, messages);
  }
  [[nodiscard]] std::ptrdiff_t count_missed() {
    return std::ranges::count_if(
        got[2], [](const std::string& line) { return line.find("missed") != std::string::npos; });
  }
};

TEST_F(SlowSubscribers, MissTheOldestAndHearHowMany) {
  subscribe(2, "news", {.waiting = 3});
  topic news{sim.node(1), "news"};
  EXPECT_EQ(publish_to_stopped(news, 100), 0U);
  expect_whole(100);
  EXPECT_EQ(count_missed(), 1);
  ASSERT_GE(got[2].size(), 4U);
  EXPECT_EQ(got[2].back(), says(1, text_of(99)));
  EXPECT_NE(got[2][got[2].size() - 4].find("missed"), std::string::npos) << "then the last three";
  EXPECT_EQ(sim.node(1).stats().topic_drops, sim.node(2).stats().topic_missed);
}

TEST_F(SlowSubscribers, HaveTheLatestWhereOneMayWait) {
  subscribe(2, "news", {.waiting = 1});
  topic news{sim.node(1), "news"};
  EXPECT_EQ(publish_to_stopped(news, 100), 0U);
  expect_whole(100);
  ASSERT_GE(got[2].size(), 2U);
  EXPECT_EQ(got[2].back(), says(1, text_of(99)));
  EXPECT_NE(got[2][got[2].size() - 2].find("missed"), std::string::npos);
}

TEST_F(SlowSubscribers, MissTheNewestAndHearOfTheLastOfThemToo) {
  subscribe(2, "news", {.slow = overflow_policy::drop_newest, .waiting = 3});
  topic news{sim.node(1), "news"};
  EXPECT_EQ(publish_to_stopped(news, 100), 0U);
  expect_whole(100);
  EXPECT_EQ(count_missed(), 1);
  EXPECT_NE(got[2].back().find("missed"), std::string::npos) << "nothing comes behind it";
}

TEST_F(SlowSubscribers, MakeAPublisherWaitIfBothWantThat) {
  subscribe(2, "news", {.slow = overflow_policy::would_block, .waiting = 3});
  topic news{sim.node(1), "news", {.waits_for_slow = true}};
  unsigned writable = 0;
  sim.node(1).on_writable([&](bus_id whom) { writable += whom == bus_id{2} ? 1 : 0; });
  const unsigned refused = publish_to_stopped(news, 100);
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(writable, 1U);
  expect_whole(100 - refused);
  EXPECT_EQ(count_missed(), 0);
  EXPECT_TRUE(news.publish(0, text_of(100 - refused)));
  settle();
  expect_whole(101 - refused);
}

TEST_F(SlowSubscribers, HearOfAllThatTheyMissOfAnObjectForEachMessage) {
  subscribe(2, "news", {.waiting = 16});
  settle();
  sim.stop_for(2, 3s);
  constexpr unsigned messages = 2500;  // more than marks may wait
  for (unsigned i = 0; i != messages; ++i)
    topic{sim.node(1), "news"}.publish(0, text_of(i));
  sim.run_for(20s);
  expect_whole(messages);
  EXPECT_EQ(count_missed(), 1);
}

// The other topic has copies that wait all the time.
TEST_F(Topics, MakeAPublisherWaitForThatTopicAlone) {
  sim.conditions().kernel_holds = 4096;
  sim.conditions().queue_size = 8192;
  start(1);
  start(2);
  ASSERT_TRUE(sim.node(2).connect(1, address_of(1)));
  subscribe(2, "news", {.slow = overflow_policy::would_block, .waiting = 1});
  subscribe(2, "flood");
  settle();
  topic news{sim.node(1), "news", {.waits_for_slow = true}};
  topic flood{sim.node(1), "flood"};
  unsigned writable = 0;
  sim.node(1).on_writable([&](bus_id) { ++writable; });
  unsigned refused = 0;
  const std::string text(1000, 'x');
  bool may = true;
  for (unsigned i = 0; i != 1000; ++i) {
    for (unsigned burst = 0; burst != 20; ++burst)
      flood.publish(0, text);
    const unsigned before = writable;
    while (may && news.publish(0, text)) {
    }
    refused += may ? 1 : 0;
    sim.run_for(1ms);
    may = writable != before;
  }
  EXPECT_GT(writable, 10U);
  EXPECT_GE(writable + 1, refused);
}

TEST_F(SlowSubscribers, MakeNobodyWaitWhoDoesNotWantThat) {
  subscribe(2, "news", {.slow = overflow_policy::would_block, .waiting = 3});
  topic news{sim.node(1), "news"};
  EXPECT_EQ(publish_to_stopped(news, 100), 0U);
  expect_whole(100);
  EXPECT_EQ(count_missed(), 1);
}

// Messages reach it over the relay, copies don't.
TEST_F(Topics, MakeNobodyWaitForASubscriberThatARelayLeadsTo) {
  start_root();
  start_relay(0x110);
  start_relay(0x120);
  settle();
  ASSERT_TRUE(sim.node(0x120).connect(0x110, address_of(0x110)));
  subscribe(0x120, "news", {.slow = overflow_policy::would_block, .waiting = 1});
  settle();
  topic news{sim.node(0x110), "news", {.waits_for_slow = true}};
  ASSERT_EQ(news.links(), 2U);
  sim.separate(0x110, 0x120);
  sim.cut(0x110, 0x120);
  sim.run_for(30s);  // until the node knows that
  ASSERT_TRUE(sim.node(0x110).send(0x120, 0, "over the relay"));
  sim.run_for(1s);
  for (int i = 0; i != 3; ++i)
    EXPECT_TRUE(news.publish(0, "x"));
  EXPECT_EQ(news.links(), 2U) << "it is still wanted there";
}

TEST_F(SlowSubscribers, ThatDieMakeNobodyWait) {
  subscribe(2, "news", {.slow = overflow_policy::would_block, .waiting = 1});
  settle();
  topic news{sim.node(1), "news", {.waits_for_slow = true}};
  sim.kill(2);
  settle();
  for (unsigned i = 0; i != 100; ++i)
    EXPECT_TRUE(news.publish(0, text_of(i)));
  sim.run_for(60s);
  EXPECT_EQ(news.links(), 0U) << "after first_idle_timeout";
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
