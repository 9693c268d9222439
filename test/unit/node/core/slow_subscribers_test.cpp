// Subscribers of topics that are slow, over links that hold little: what they miss, and who waits for them.
#include <algorithm>
#include <list>

#include "atbus/atbus.hpp"
#include "atbus/topic.hpp"
#include "unit/node/core/topics_fixture.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace atbus
