// Where the messages of a node go when nothing has to be asked before: past its core. Nobody notices.
#include "node_fixture.h"

namespace atbus::test {
namespace {

class DirectPath : public NodeFixture {};
class SocketWay : public NodeFixture {};

TEST_P(DirectPath, KeepsOrderAndCountsWhateverWayMessagesTake) {
  connect_both();
  std::vector<std::string> expected;
  std::uint64_t bytes = 0;
  for (int i = 0; i != 300; ++i) {
    const std::string& text = expected.emplace_back(std::to_string(i));
    bytes += text.size();
    if (i % 3 == 0) {
      node_slot slot = first->claim(2, 1, 100);
      ASSERT_TRUE(slot);
      std::memcpy(slot.bytes().data(), text.data(), text.size());
      slot.commit(text.size());
    } else {
      ASSERT_TRUE(first->send(2, 1, text));
    }
    if (i % 50 == 17) {
      ASSERT_TRUE(first->send(1, 1, "to itself"));
      bytes += 9;
    }
    if (i % 70 == 19)
      first->poll();
    EXPECT_EQ(first->stats().accepted_bytes, bytes);
  }
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return second_log.messages.size() >= expected.size() && first_log.messages.size() >= 6;
  }));
  EXPECT_EQ(second_log.messages, expected);
  EXPECT_EQ(first->stats().accepted, expected.size() + 6);
  // What is acknowledged is what was counted.
  EXPECT_TRUE(second->shutdown(10s));
  EXPECT_TRUE(first->shutdown(10s));
  EXPECT_EQ(first_log.undelivered.size(), 0U);
  EXPECT_EQ(first->stats().violations, 0U);
}

TEST_P(DirectPath, GivesUpASlotAmongOtherMessages) {
  connect_both();
  const auto claim_after_others = [&] {
    EXPECT_TRUE(first->send(2, 1, "other"));
    EXPECT_TRUE(first->send(2, 1, "other"));
    return first->claim(2, 1, 10);
  };
  node_slot before_poll = claim_after_others();
  ASSERT_TRUE(before_poll);
  first->poll();
  before_poll.commit();
  node_slot before_send = claim_after_others();
  ASSERT_TRUE(first->send(2, 1, "sent"));
  before_send.commit();
  node_slot too_long = claim_after_others();
  too_long.commit(11);
  node_slot twice = claim_after_others();
  twice.commit(2);
  twice.commit(2);
  EXPECT_EQ(first->stats().accepted, 10U);
  node_slot before_control = claim_after_others();
  ASSERT_TRUE(before_control);
  ASSERT_TRUE(first->listen("mem://another-" + unique()));  // tells its peers
  before_control.commit();
  EXPECT_EQ(first->stats().accepted, 12U);
  node_slot before_disconnect = claim_after_others();
  ASSERT_TRUE(before_disconnect);
  ASSERT_TRUE(first->disconnect(2));
  before_disconnect.commit();
  EXPECT_EQ(first->stats().accepted, 14U);
  first->poll();
  ASSERT_TRUE(turn({&*second}, [&] { return second_log.messages.size() >= 14; }));
  EXPECT_EQ(second_log.messages.size(), 14U);
}

TEST_P(DirectPath, NumbersInReportsCountAllThatWasAccepted) {
  connect_both();
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(first->send(2, 1, "handled"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 3; }));
  for (int i = 0; i != 5; ++i)
    ASSERT_TRUE(first->send(2, 1, "never handled"));
  EXPECT_EQ(first->shutdown(50ms), errc::timed_out);
  // Of sockets, those that were handled may be among them: nothing told of it yet.
  ASSERT_GE(first_log.undelivered.size(), 5U);
  std::uint64_t number = 8;
  for (auto at = first_log.undelivered.rbegin(); at != first_log.undelivered.rend(); ++at)
    EXPECT_EQ(at->first, number--);
}

TEST_P(DirectPath, LeavesAnOpenSlotToAFlush) {
  connect_both();
  const auto flush_while_open = [&] {
    const std::size_t expected = second_log.messages.size() + 3;
    ASSERT_TRUE(first->send(2, 1, "one"));
    ASSERT_TRUE(first->send(2, 1, "two"));
    node_slot slot = first->claim(2, 1, 5);
    ASSERT_TRUE(slot);
    first->flush();
    std::memcpy(slot.bytes().data(), "three", 5);
    slot.commit();
    first->flush();
    ASSERT_TRUE(turn({&*second}, [&] { return second_log.messages.size() >= expected; }));
    EXPECT_EQ(second_log.messages.back(), "three");
  };
  // Meanwhile all that waited to be acknowledged is.
  const auto until = now() + 50ms;
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return now() > until; }));
  flush_while_open();
  ASSERT_TRUE(second->send(1, 1, "waits for its acknowledgement"));
  second->flush();
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.messages.size() == 1; }));
  flush_while_open();
  EXPECT_EQ(second_log.messages.size(), 6U);
}

TEST_P(DirectPath, KnowsTheLimitOfTheOtherEnd) {
  connect_both(options(), options().message_limit(1000));
  const std::string longest(1000, 'x');
  const std::string too_long(1001, 'x');
  for (int i = 0; i != 5; ++i) {
    ASSERT_TRUE(first->send(2, 1, longest));
    EXPECT_EQ(first->send(2, 1, too_long), errc::message_too_large);
  }
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 5; }));
}

TEST_P(SocketWay, LeavesRoomForControlMessages) {
  constexpr std::size_t queue_size = 600 * 1024;  // not where a write is due
  const node_options small = options().message_limit(1000).send_buffer_size(queue_size);
  connect_both(small, options());
  std::uint64_t accepted = 0;
  while (first->send(2, 1, "12345678"))
    ++accepted;
  constexpr std::size_t in_queue = 24;  // frame, head, message
  EXPECT_LE(accepted * in_queue, queue_size);
  EXPECT_GE(accepted * in_queue, queue_size - 1024);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SocketWay, ::testing::ValuesIn(socket_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });
INSTANTIATE_TEST_SUITE_P(Kinds, DirectPath, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
