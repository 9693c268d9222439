// What a handler finds, does and brings about while messages come to it past its node's core.
#include "node_fixture.h"

namespace atbus::test {
namespace {

class DirectInlet : public NodeFixture {
 protected:
  // So many messages for `second`, which has not seen any of them.
  void send(std::size_t count) {
    for (std::size_t i = 0; i != count; ++i)
      ASSERT_TRUE(first->send(2, 1, std::to_string(i)));
    first->flush();
  }
  // Calls `then` when `second` has handled so many.
  void after(std::size_t count, std::function<void()> then) {
    second->on_message([this, count, then = std::move(then)](const message& m) {
      second_log.messages.emplace_back(m.text());
      if (second_log.messages.size() == count)
        then();
    });
  }
  bool until_told(std::size_t count) {
    return turn({&*second}, [&] { return second_log.messages.size() >= count; });
  }
};

TEST_P(DirectInlet, CountsEachMessageBeforeItIsTold) {
  connect_both();
  std::uint64_t bytes = 0;
  second->on_message([&](const message& m) {
    second_log.messages.emplace_back(m.text());
    bytes += m.text().size();
    EXPECT_EQ(second->stats().delivered, second_log.messages.size());
    EXPECT_EQ(second->stats().delivered_bytes, bytes);
    if (second_log.messages.size() % 3 == 0) {
      EXPECT_TRUE(second->send(1, 1, "answer"));
    }
  });
  send(100);
  ASSERT_TRUE(until_told(100));
  EXPECT_EQ(second->stats().delivered, 100U);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return first_log.messages.size() == 33; }));
}

TEST_P(DirectInlet, TellsNewsBeforeTheNextMessage) {
  connect_both();
  after(5, [&] {
    EXPECT_TRUE(second->on_ready(1, 10s, [&](status how) {
      EXPECT_TRUE(how);
      second_log.messages.emplace_back("ready");
    }));
  });
  send(10);
  ASSERT_TRUE(until_told(11));
  EXPECT_EQ(second_log.messages,
            (std::vector<std::string>{"0", "1", "2", "3", "4", "ready", "5", "6", "7", "8", "9"}));
}

TEST_P(DirectInlet, TellsNothingMoreOfWhoIsDisconnected) {
  connect_both();
  after(5, [&] { EXPECT_TRUE(second->disconnect(1)); });
  send(10);
  ASSERT_TRUE(until_told(5));
  EXPECT_EQ(second_log.messages.size(), 5U);
}

TEST_P(DirectInlet, TellsNothingOfWhoIsDisconnectedByNewsBefore) {
  connect_both();
  after(5, [&] {
    EXPECT_TRUE(second->on_ready(1, 10s, [&](status) { EXPECT_TRUE(second->disconnect(1)); }));
  });
  send(10);
  ASSERT_TRUE(until_told(5));
  const auto a_moment = now() + 5ms;
  ASSERT_TRUE(turn({&*second}, [&] { return now() > a_moment; }));
  EXPECT_EQ(second_log.messages.size(), 5U);
}

TEST_P(DirectInlet, TellsNoMoreThanAPollMay) {
  connect_both();
  send(100);
  std::size_t most = 0;
  ASSERT_TRUE(turn({&*first}, [&] {
    const std::size_t before = second_log.messages.size();
    const std::size_t told = second->poll({.messages = 7});
    EXPECT_EQ(second_log.messages.size(), before + told);
    most = std::max(most, told);
    return second_log.messages.size() == 100;
  }));
  EXPECT_EQ(most, 7U);
}

TEST_P(DirectInlet, SaysInAFlushHowFarItHasCome) {
  connect_both();
  after(10, [&] {
    // Long after the last acknowledgement, and with an answer that it goes with.
    for (const auto until = now() + 1ms; now() < until;) {
    }
    EXPECT_TRUE(second->send(1, 1, "answer"));
    second->flush();
  });
  send(10);
  ASSERT_TRUE(until_told(10));
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.messages.size() == 1; }));
  // All but the message in hand, which a successor is to get if the process ends there. A lane knows itself.
  (void)first->shutdown(10ms);
  const bool is_socket = GetParam().tcp || std::string{GetParam().name} == "unix_socket";
  EXPECT_EQ(first_log.undelivered.size(), is_socket ? 1 : 0);
}

TEST_P(DirectInlet, AcknowledgesToEachOfManyWhatItHasSent) {
  connect_both();
  node third{3, options()};
  ASSERT_TRUE(third.connect(2, second->addresses().at(0)));
  ASSERT_TRUE(turn({&*second, &third}, [&] {
    const auto all = second->endpoints();
    return std::count_if(all.begin(), all.end(), [](const endpoint& e) { return e.connected(); }) ==
           2;
  }));
  for (std::size_t round = 0; round != 20; ++round) {
    for (std::size_t i = 0; i != 1 + round % 3; ++i)
      ASSERT_TRUE(first->send(2, 1, "of the first"));
    first->flush();
    for (std::size_t i = 0; i != 1 + round % 4; ++i)
      ASSERT_TRUE(third.send(2, 1, "of the third"));
    third.flush();
    if (round % 2 == 0)
      second->poll();
  }
  ASSERT_TRUE(turn({&*first, &*second, &third}, [&] { return second_log.messages.size() == 89; }));
  ASSERT_TRUE(
      turn({&*first, &*second, &third}, [&] { return first->is_settled() && third.is_settled(); }));
  EXPECT_TRUE(first->shutdown(0s));
  EXPECT_TRUE(third.shutdown(0s));
  EXPECT_EQ(first->stats().violations + third.stats().violations, 0U);
}

class SocketInlet : public NodeFixture {};

// Who sends all he can is not kept waiting until the other end has nothing left to read.
TEST_P(SocketInlet, AcknowledgesWhatWasAskedForInTheMiddleOfAPoll) {
  connect_both(options().send_buffer_size(1024 * 1024), options());
  const std::string text(8000, 'x');
  while (first->send(2, 1, text)) {
  }
  bool has_room = false;
  second->on_message([&](const atbus::message&) {
    first->poll();
    has_room = has_room || first->send(2, 1, text).code() == errc::ok;
  });
  ASSERT_TRUE(
      turn({&*first}, [&] { return second->poll({.messages = std::size_t{1} << 40}) != 0; }));
  EXPECT_TRUE(has_room);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SocketInlet, ::testing::ValuesIn(socket_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });
INSTANTIATE_TEST_SUITE_P(Kinds, DirectInlet, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
