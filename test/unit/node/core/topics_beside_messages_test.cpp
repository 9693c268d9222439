// Copies of topics and messages by name that share a link which is full: each has its turn.
#include <unistd.h>

#include <chrono>
#include <functional>
#include <new>
#include <string>

#include "atbus/atbus.hpp"
#include "atbus/clock.hpp"
#include "atbus/topic.hpp"
#include "counting_allocator.h"
#include "test.h"

namespace atbus {
namespace {

// A publisher and a subscriber that takes a bit less than it is sent, turn by turn; messages by name go there too.
class TopicsBesideMessages : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string where = "unix://@topics-beside-messages-" + std::to_string(getpid());
    ASSERT_TRUE(from.listen(where));
    ASSERT_TRUE(to.connect(1, where));
    ASSERT_TRUE(to.subscribe("news", [this](const topic_message&) { ++copies; }));
    to.on_message([this](const message&) { ++messages; });
    while (news.links() != 1)
      turn();
  }
  void turn() {
    from.poll();
    to.poll({.messages = 5});
  }
  // Until the link has been full for long.
  void run(const std::function<void()>& send) {
    for (int i = 0; i != 4000; ++i) {
      if (i == 2000)
        copies = messages = 0;
      news.publish(0, text);
      send();
      turn();
    }
  }

  node from{1, node_options{}.allow_unauthenticated().message_limit(16384).send_buffer_size(65536)};
  node to{2, node_options{}.allow_unauthenticated()};
  topic news{from, "news"};
  const std::string text = std::string(1000, 'x');
  int copies = 0;
  int messages = 0;
};

// Before the poll in which the link has room is over, the message that comes next finds it full again.
TEST_F(TopicsBesideMessages, DoNotKeepANewSubscriptionFromBeingToldIfEachMessageIsAnswered) {
  const topic other{to, "other"};
  to.on_message([this](const message&) { (void)to.send(1, 0, "answered"); });
  from.on_message([](const message&) {});
  const auto fill = [this] {
    while (from.send(2, 0, text)) {
    }
  };
  from.on_writable([&](bus_id) { fill(); });
  fill();
  for (int i = 0; i != 2000 && other.links() == 0; ++i) {
    if (i == 1000) {
      ASSERT_TRUE(from.subscribe("other", [](const topic_message&) {}));
    }
    news.publish(0, text);
    from.poll();
    to.poll();
  }
  EXPECT_EQ(other.links(), 1U);
}

TEST_F(TopicsBesideMessages, GoOnAlsoIfAnEventWaitsBeforeEachPoll) {
  ASSERT_TRUE(from.connect(3, "unix://@atbus-topics-nobody-is-here"));
  ASSERT_TRUE(from.set_policy(3, {.overflow = overflow_policy::drop_oldest}));
  int undelivered_there = 0;
  bool may = true;
  from.on_undelivered([&](const undelivered&) { ++undelivered_there; });
  from.on_writable([&](bus_id whom) { may = may || whom == bus_id{2}; });
  for (int i = 0; i != 200; ++i)
    (void)from.send(3, 0, text);
  run([&] {
    while (may && from.send(2, 0, text)) {
    }
    may = false;
    for (int i = 0; i != 3; ++i)
      (void)from.send(3, 0, text);
  });
  EXPECT_GT(undelivered_there, 4000);
  EXPECT_GT(copies, 0);
  EXPECT_GT(messages, 0);
}

TEST_F(TopicsBesideMessages, LeaveAlsoIfMessagesAreSentInEachTurn) {
  run([&] {
    while (from.send(2, 0, text)) {
    }
  });
  EXPECT_GT(copies, 0);
  EXPECT_GT(messages, 0);
}

// Interest is short, and so is what is sent: less room than interest takes is free at the end of a poll.
TEST_F(TopicsBesideMessages, DoNotKeepAnotherSubscriptionFromBeingTold) {
  const topic other{to, "other"};
  const auto fill = [this] {
    while (from.send(2, 0, "x")) {
    }
  };
  for (int i = 0; i != 100; ++i) {
    fill();
    turn();
  }
  ASSERT_TRUE(from.subscribe("other", [](const topic_message&) {}));
  for (int i = 0; i != 20000 && other.links() == 0; ++i) {
    fill();
    turn();
  }
  EXPECT_EQ(other.links(), 1U);
}

// Each time the link tells of room, there is less than a copy takes.
TEST_F(TopicsBesideMessages, ThatAreShorterLeaveAndAreMissedAloud) {
  std::uint64_t missed = 0;
  ASSERT_TRUE(to.subscribe("news", [this](const topic_message&) { ++copies; },
                           {.on_missed = [&](bus_id, std::uint64_t number) { missed += number; }}));
  const std::string word = "12345678";
  const auto fill = [&] {
    while (from.send(2, 0, word)) {
    }
  };
  from.on_writable([&](bus_id) { fill(); });
  fill();
  constexpr std::uint64_t published = 100000;
  for (std::uint64_t i = 0; i != published; ++i) {
    news.publish(0, word);
    from.poll();
    to.poll({.messages = 2});
  }
  EXPECT_GT(copies, 1000);
  EXPECT_GT(messages, 1000);
  EXPECT_GT(missed, published / 2);
}

TEST(TopicsInALane, LetANewSubscriptionBeToldBesideShortMessages) {
  const std::string where = "mem://topics-in-a-lane";
  node from{1, node_options{}.allow_unauthenticated().message_limit(16384).send_buffer_size(65536)};
  node to{2, node_options{}.allow_unauthenticated()};
  ASSERT_TRUE(from.listen(where));
  ASSERT_TRUE(to.connect(1, where));
  const std::string name(128, 'n');
  const std::string word = "12345678";
  const topic other{to, name};
  const topic news{from, "news"};
  ASSERT_TRUE(to.subscribe("news", [](const topic_message&) {}));
  to.on_message([](const message&) {});
  const auto turn = [&] {
    from.poll();
    to.poll({.messages = 2});
  };
  while (news.links() != 1)
    turn();
  const auto fill = [&] {
    while (from.send(2, 0, word)) {
    }
  };
  from.on_writable([&](bus_id) { fill(); });
  fill();
  for (int i = 0; i != 100000 && other.links() == 0; ++i) {
    if (i == 50000) {
      ASSERT_TRUE(from.subscribe(name, [](const topic_message&) {}));
    }
    turn();
  }
  EXPECT_EQ(other.links(), 1U);
}

TEST_F(TopicsBesideMessages, GoOnAlsoIfThereIsNoMemoryForTheWordOfANewSubscription) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  const std::string name(60, 'n');
  const topic other{to, name};
  const auto fill = [&] {
    while (from.send(2, 0, text)) {
    }
    while (from.send(2, 0, "x")) {
    }
  };
  from.on_writable([&](bus_id) { fill(); });
  fill();
  news.publish(0, text);
  ASSERT_TRUE(from.subscribe(name, [](const topic_message&) {}));
  from.poll();
  ASSERT_EQ(other.links(), 0U) << "it waits for room";
  bool missed = false;
  for (int i = 0; i != 1000 && !missed; ++i) {
    to.poll({.messages = 5});
    const test::allocation_failure one{0, 1};
    try {
      from.poll();
    } catch (const std::bad_alloc&) {
    }
    missed = test::allocation_failure::happened();
  }
  ASSERT_TRUE(missed);
  copies = messages = 0;
  // What waits for memory looks again after a millisecond.
  for (const auto end = now() + std::chrono::seconds{30};
       (copies <= 10 || messages <= 1000 || other.links() == 0) && now() < end;) {
    news.publish(0, text);
    turn();
  }
  EXPECT_GT(copies, 10);
  EXPECT_GT(messages, 1000);
  EXPECT_EQ(other.links(), 1U);
}

}  // namespace
}  // namespace atbus
