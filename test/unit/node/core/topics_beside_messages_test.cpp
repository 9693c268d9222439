// Copies of topics and messages by name that share a link which is full: each has its turn.
#include <unistd.h>

#include <functional>
#include <string>

#include "atbus/atbus.hpp"
#include "atbus/topic.hpp"
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

}  // namespace
}  // namespace atbus
