// What nodes tell each other of topics, with one that is played by hand: of an older version, or hostile.
#include "atbus/topic.hpp"
#include "protocol/topic_head.h"
#include "raw_body.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class TopicPeers : public ::testing::Test {
 protected:
  TopicPeers() {
    EXPECT_TRUE(node.node.user().subscribe(
        "news", [this](const topic_message& m) { got.emplace_back(m.text()); },
        {.on_missed = [this](bus_id, std::uint64_t messages) { missed += messages; }}));
  }
  void play(std::uint64_t capabilities = capability_topics) {
    other = std::make_unique<hand_played>(
        net, 2, 1, true, true, [=](introduction& self) { self.capabilities = capabilities; });
    ASSERT_TRUE(net.run_until([&] { return other->is_registered(); }, 5s));
    net.run_for(100ms);
  }
  // All links of it carry one flow.
  void say_flow() {
    ++flows;
    other->say(flow_body{.next = flows, .turn = flows});
  }
  void say_copy(const topic_head& head, std::string_view text = {},
                std::uint8_t flags = flag_topic) {
    const std::size_t size =
        topic_head_size(head.name) + (head.what == topic_part::mark ? topic_mark_size : 0);
    byte_buffer message(message_head_size + size);
    encode(message_head{message_kind::data, flags, 0, 0}, message.data());
    encode(head, message.data() + message_head_size);
    append_bytes(message, as_bytes(text));
    other->say_bytes(message);
    net.run_for(10ms);
  }
  void say_message(std::uint64_t number, std::string_view text) {
    say_copy({.publisher = 2, .stream = 5, .number = number, .name = "news"}, text);
  }
  // What this node has said of its interest, and copies.
  [[nodiscard]] std::vector<interest_body> interests() const { return interests_of(*other); }
  [[nodiscard]] static std::vector<interest_body> interests_of(const hand_played& whom) {
    std::vector<interest_body> all;
    for (const byte_buffer& message : whom.got) {
      if (interest_body body; decode(message, body))
        all.push_back(body);
    }
    return all;
  }
  [[nodiscard]] std::vector<topic_head> copies() const {
    std::vector<topic_head> all;
    for (const byte_buffer& message : other->got) {
      topic_head copy;
      if (message_head head; decode(message, head) == head_fault::none &&
                             head.kind == message_kind::data && decode(payload_of(message), copy))
        all.push_back(copy);
    }
    return all;
  }
  [[nodiscard]] std::uint64_t violations() { return node.core().stats().violations; }

  simulated_network net{1};
  party node{net, 1};
  std::unique_ptr<hand_played> other;
  std::vector<std::string> got;
  std::uint64_t missed = 0;
  std::uint64_t flows = 0;
};

TEST_F(TopicPeers, AreToldWhatIsWantedAndThatItIsAll) {
  play();
  const auto all = interests();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], (interest_body{.topic = "news",
                                   .wanted = true,
                                   .slow = static_cast<std::uint8_t>(overflow_policy::drop_oldest),
                                   .waiting = 1024,
                                   .fresh = true,
                                   .turn = 1}));
  EXPECT_EQ(all[1], (interest_body{.whole = true}));
}

TEST_F(TopicPeers, OfAnOlderVersionSeeNothingNew) {
  play(0);
  topic news{node.node.user(), "news"};
  news.publish(0, "x");
  net.run_for(1s);
  EXPECT_TRUE(interests().empty());
  EXPECT_TRUE(copies().empty());
  EXPECT_EQ(node.logged("does not know topics"), 1);
  other->say(interest_body{.topic = "news", .wanted = true, .waiting = 1, .fresh = true});
  net.run_for(1s);
  EXPECT_FALSE(other->has_ended()) << "as a kind that is not known";
  EXPECT_EQ(news.links(), 1U) << "its own";
}

TEST_F(TopicPeers, AreAnsweredWithBeginAndAMarkOfEachStream) {
  topic prices{node.node.user(), "prices"};
  prices.publish(0, "1");
  prices.publish(0, "2");
  play();
  other->say(
      interest_body{.topic = "prices", .wanted = true, .waiting = 1, .fresh = true, .turn = 77});
  net.run_for(100ms);
  prices.publish(0, "3");
  node.node.wake();
  net.run_for(100ms);
  const auto all = copies();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].what, topic_part::begin);
  EXPECT_EQ(all[0].number, 77U);
  EXPECT_EQ(all[1].what, topic_part::mark);
  EXPECT_EQ(all[1].base, 2U);
  EXPECT_EQ(all[1].number, 2U);
  EXPECT_EQ(all[2].what, topic_part::message);
  EXPECT_EQ(all[2].number, 3U);
  EXPECT_EQ(all[2].stream, all[1].stream);
}

TEST_F(TopicPeers, AreOwedNothingOfAStreamBeforeTheyHaveBegun) {
  play();
  say_flow();
  say_message(7, "seven");
  EXPECT_EQ(missed, 0U);
  say_message(9, "nine");
  EXPECT_EQ(missed, 1U);
  say_message(8, "eight");
  say_message(9, "nine");
  EXPECT_EQ(got, (std::vector<std::string>{"seven", "nine"}));
  EXPECT_EQ(node.core().stats().duplicates, 2U);
  EXPECT_EQ(node.core().stats().topic_missed, 1U);
}

TEST_F(TopicPeers, OweAStreamFromItsBeginOnceTheyHaveBegun) {
  play();
  say_flow();
  say_copy({.number = 1, .what = topic_part::begin, .name = "news"});
  say_message(3, "three");
  EXPECT_EQ(missed, 2U);
  say_copy({.publisher = 2,
            .stream = 5,
            .number = 10,
            .base = 10,
            .what = topic_part::mark,
            .name = "news"});
  EXPECT_EQ(missed, 9U) << "the last ones too";
  EXPECT_EQ(got, (std::vector<std::string>{"three"}));
}

TEST_F(TopicPeers, DoNotCountFromTheBeginThatAnswersAnEarlierInterest) {
  play();
  say_flow();
  say_copy({.number = 99, .what = topic_part::begin, .name = "news"});
  say_message(3, "three");
  EXPECT_EQ(missed, 0U);
}

TEST_F(TopicPeers, CannotPublishInTheNameOfOthers) {
  play();
  say_flow();
  say_copy({.publisher = 3, .stream = 5, .number = 1, .name = "news"}, "forged");
  say_copy({.publisher = 1, .stream = 5, .number = 1, .name = "news"}, "forged");
  say_copy({.publisher = 2, .stream = 5, .number = 1, .name = "unwanted"}, "stray");
  EXPECT_TRUE(got.empty());
  EXPECT_EQ(node.core().stats().topic_strays, 3U);
  EXPECT_EQ(node.logged("in the name of"), 1);
  EXPECT_FALSE(other->has_ended());
  say_message(1, "one");
  EXPECT_EQ(got, (std::vector<std::string>{"one"}));
}

TEST_F(TopicPeers, ThatSayNonsenseLoseTheirLink) {
  const std::vector<interest_body> nonsense{
      {.topic = "news", .wanted = true, .waiting = 1},  // not fresh
      {.topic = "news", .wanted = true, .waiting = 0, .fresh = true},
      {.topic = "news", .wanted = true, .waiting = 65537, .fresh = true},
      {.topic = "news", .wanted = true, .slow = 3, .waiting = 1, .fresh = true},
      {.topic = std::string(129, 'x'), .wanted = true, .waiting = 1, .fresh = true},
      {.topic = "a\nb", .wanted = true, .waiting = 1, .fresh = true},
      {.topic = "", .wanted = true, .waiting = 1, .fresh = true},
      {.topic = ""}};
  std::uint64_t ended = 0;
  for (const interest_body& one : nonsense) {
    play();
    other->say(one);
    net.run_for(100ms);
    EXPECT_EQ(violations(), ++ended) << "number " << ended;
  }
  for (const unsigned beside : {flag_request, flag_traced, flag_command}) {
    play();
    say_flow();
    say_copy({.publisher = 2, .stream = 5, .number = 1, .name = "news"}, "x",
             static_cast<std::uint8_t>(flag_topic | beside));
    net.run_for(100ms);
    EXPECT_EQ(violations(), ++ended);
  }
  play();
  say_flow();
  say_copy({.publisher = 2, .stream = 0, .number = 1, .name = "news"}, "x");
  net.run_for(100ms);
  EXPECT_EQ(violations(), ++ended);
  EXPECT_TRUE(got.empty());
}

TEST_F(TopicPeers, MayWant4096TopicsAndNoMore) {
  play();
  for (int i = 0; i != 4097; ++i) {
    other->say(
        interest_body{.topic = std::to_string(i), .wanted = true, .waiting = 1, .fresh = i == 0});
    if (i % 64 == 0)
      net.run_for(10ms);
    if (i == 4095) {
      net.run_for(100ms);
      EXPECT_EQ(violations(), 0U);
    }
  }
  net.run_for(100ms);
  EXPECT_EQ(violations(), 1U);
}

TEST_F(TopicPeers, ThatAreGoneAreForgottenWithWhatTheyWanted) {
  topic prices{node.node.user(), "prices"};
  play();
  other->say(interest_body{.topic = "prices", .wanted = true, .waiting = 1, .fresh = true});
  net.run_for(100ms);
  EXPECT_EQ(prices.links(), 1U);
  other.reset();
  net.run_for(120s);
  EXPECT_EQ(prices.links(), 0U);
}

// A link may end because it is to register again, or because its token is taken away.
TEST_F(TopicPeers, WantNothingMoreOnceTheyLeaveButNotWhenTheyEndALink) {
  topic prices{node.node.user(), "prices"};
  for (const errc why : {errc::ok, errc::denied, errc::superseded}) {
    play();
    other->say(interest_body{.topic = "prices", .wanted = true, .waiting = 9, .fresh = true});
    net.run_for(100ms);
    ASSERT_EQ(prices.links(), 1U);
    other->say(bye_body{.reason = why, .text = "register again"});
    net.run_for(1s);
    EXPECT_EQ(prices.publish(0, "while it is away").links(), 1U) << explain(why);
  }
  play();
  net.run_for(1s);
  const auto all = copies();
  EXPECT_EQ(std::ranges::count(all, topic_part::message, &topic_head::what), 3)
      << "before it has told its interest again";
  other->say(bye_body{.reason = errc::closed, .text = "disconnected"});
  net.run_for(1s);
  EXPECT_EQ(prices.links(), 0U);
}

TEST_F(TopicPeers, WantWhatTheyRepeatOnTheirNextLink) {
  topic prices{node.node.user(), "prices"};
  topic others{node.node.user(), "others"};
  play();
  other->say(interest_body{.topic = "prices", .wanted = true, .waiting = 1, .fresh = true});
  other->say(interest_body{.topic = "others", .wanted = true, .waiting = 1});
  net.run_for(100ms);
  EXPECT_EQ(prices.links() + others.links(), 2U);
  play();
  EXPECT_EQ(prices.links() + others.links(), 2U) << "until all is told";
  other->say(interest_body{.topic = "others", .wanted = true, .waiting = 1, .fresh = true});
  other->say(interest_body{.whole = true});
  net.run_for(100ms);
  EXPECT_EQ(prices.links(), 0U);
  EXPECT_EQ(others.links(), 1U);
}

TEST_F(TopicPeers, MakeNobodyWaitForWhatTheyDoNotRepeat) {
  party publisher{net, 80,
                  plain().first_idle_timeout(1s).message_limit(16384).send_buffer_size(65536)};
  topic prices{publisher.node.user(), "prices", {.waits_for_slow = true}};
  const auto join = [&] {
    auto made = std::make_unique<hand_played>(
        net, 82, 80, true, true, [](introduction& self) { self.capabilities = capability_topics; });
    EXPECT_TRUE(net.run_until([&] { return made->is_registered(); }, 5s));
    return made;
  };
  auto wants = join();
  wants->say(interest_body{.topic = "prices",
                           .wanted = true,
                           .slow = static_cast<std::uint8_t>(overflow_policy::would_block),
                           .waiting = 1,
                           .fresh = true});
  net.run_for(100ms);
  wants = join();
  ASSERT_EQ(prices.links(), 1U);
  wants->stop_reading();
  int accepted = 0;
  while (accepted != 10000 && prices.publish(0, std::string(1000, 'x')))
    ++accepted;
  EXPECT_LT(accepted, 10000);
  EXPECT_EQ(publisher.writable, 0);
  net.run_for(3s);
  EXPECT_EQ(prices.links(), 0U);
  EXPECT_EQ(publisher.writable, 1);
  EXPECT_FALSE(wants->has_ended());
}

// What was said on the link before may come later than what is said on the next one.
TEST_F(TopicPeers, MaySayOnAnOlderLinkWhatDoesNotCountAnyMore) {
  topic prices{node.node.user(), "prices"};
  topic others{node.node.user(), "others"};
  play();
  other->say(interest_body{.topic = "prices", .wanted = true, .waiting = 1, .fresh = true});
  net.run_for(100ms);
  hand_played next{net, 2, 1, true, false, [](introduction& self) {
                     self.capabilities = capability_topics;
                     self.nonce[0] = std::byte{6};
                   }};
  ASSERT_TRUE(net.run_until([&] { return next.is_registered(); }, 5s));
  next.say(interest_body{.topic = "others", .wanted = true, .waiting = 1, .fresh = true});
  next.say(interest_body{.whole = true});
  net.run_for(100ms);
  EXPECT_EQ(prices.links(), 0U);
  other->say(interest_body{.topic = "prices", .wanted = true, .waiting = 1});
  other->say(interest_body{.topic = "others"});
  net.run_for(100ms);
  EXPECT_EQ(prices.links(), 0U);
  EXPECT_EQ(others.links(), 1U);
  EXPECT_EQ(violations(), 0U);
  EXPECT_EQ(node.core().stats().subscriptions_refused, 0U);
  EXPECT_FALSE(other->has_ended());
  EXPECT_FALSE(next.has_ended());
}

// That is so also of all that is told on the older link, if it was slower than the newer one from its beginning.
TEST_F(TopicPeers, MayBeginToTellOnAnOlderLinkWhatDoesNotCountAnyMore) {
  topic prices{node.node.user(), "prices"};
  topic others{node.node.user(), "others"};
  play();
  hand_played next{net, 2, 1, true, false, [](introduction& self) {
                     self.capabilities = capability_topics;
                     self.nonce[0] = std::byte{6};
                   }};
  ASSERT_TRUE(net.run_until([&] { return next.is_registered(); }, 5s));
  const auto say_all = [&](hand_played& on, const std::string& name, std::uint64_t turn) {
    on.say(interest_body{.topic = name, .wanted = true, .waiting = 1, .fresh = true, .turn = turn});
    on.say(interest_body{.whole = true});
    net.run_for(100ms);
  };
  say_all(next, "others", 2);
  say_all(*other, "prices", 1);
  EXPECT_EQ(prices.links(), 0U);
  EXPECT_EQ(others.links(), 1U);
  EXPECT_FALSE(other->has_ended());
  // The newer link may be lost, though this node does not know that yet.
  say_all(*other, "prices", 3);
  EXPECT_EQ(prices.links(), 1U);
  EXPECT_EQ(others.links(), 0U);
  EXPECT_EQ(violations(), 0U);
}

// What it was told may be all that keeps a topic.
TEST_F(TopicPeers, ThatLoseTheirPlaceInTheTreeAreToldOverTheLinkThatIsLeft) {
  party relay{net, 80, plain().children("80/60")};
  ASSERT_TRUE(relay.node.user().subscribe("own", [](const topic_message&) {}));
  const auto as_child = [](introduction& self) {
    self.capabilities = capability_topics;
    self.as = relation::child;
  };
  hand_played beside{net, 82, 80, true, false, [](introduction& self) {
                       self.capabilities = capability_topics;
                       self.nonce[0] = std::byte{6};
                     }};
  ASSERT_TRUE(net.run_until([&] { return beside.is_registered(); }, 5s));
  auto below = std::make_unique<hand_played>(net, 82, 80, true, false, as_child);
  hand_played wants{net, 83, 80, true, true, as_child};
  ASSERT_TRUE(net.run_until([&] { return below->is_registered() && wants.is_registered(); }, 5s));
  net.run_for(100ms);
  wants.say(interest_body{.topic = "t", .wanted = true, .waiting = 1, .fresh = true});
  net.run_for(100ms);
  const auto told = interests_of(*below);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[2].topic, "t");
  EXPECT_TRUE(told[2].wanted);
  const std::size_t before = interests_of(beside).size();
  below.reset();
  net.run_for(100ms);
  EXPECT_FALSE(beside.has_ended());
  const auto again = interests_of(beside);
  ASSERT_EQ(again.size(), before + 2) << "all, as to a peer";
  EXPECT_EQ(again[before].topic, "own");
  EXPECT_TRUE(again[before].wanted && again[before].fresh);
  EXPECT_TRUE(again[before + 1].whole);
  wants.say(interest_body{.topic = "t"});
  net.run_for(100ms);
  EXPECT_EQ(relay.core().stats().violations, 0U);
}

}  // namespace
}  // namespace atbus::detail
