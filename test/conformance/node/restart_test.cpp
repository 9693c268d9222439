// A node that ends, and what becomes of the messages that wait in its named inbox.
#include "node_fixture.h"

namespace atbus::test {
namespace {

// `first` sends to `second`, which listens in shared memory.
class NodeRestart : public NodeFixture {
 protected:
  void send(int from, int to) {
    for (int i = from; i != to; ++i) {
      wanted.push_back("message " + std::to_string(i));
      ASSERT_TRUE(first->send(2, 0, wanted.back()));
    }
  }
  // Ends without having looked at what waits for it.
  void end_second() {
    second.reset();
    ASSERT_TRUE(turn({&*first}, [&] { return first_log.saw(endpoint_event::away); }));
  }
  void start_second_again() {
    second.emplace(2, options());
    second_log.listen_to(*second);
    ASSERT_TRUE(second->listen(address()));
  }
  void expect_all_once() {
    EXPECT_EQ(second_log.messages, wanted);
    EXPECT_TRUE(second_log.marked.empty());
    EXPECT_TRUE(first_log.undelivered.empty());
    EXPECT_EQ(first->stats().links_lost, 0U);
  }

  std::vector<std::string> wanted;
};

TEST_P(NodeRestart, InheritsWhatWaitsInItsInbox) {
  connect_both();
  send(0, 100);
  end_second();
  send(100, 200);
  start_second_again();
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 200; }));
  expect_all_once();
  EXPECT_TRUE(first->shutdown(10s));
}

TEST_P(NodeRestart, InheritsAlsoFromASenderThatHasEnded) {
  connect_both();
  send(0, 100);
  second.reset();
  first.reset();
  start_second_again();
  ASSERT_TRUE(turn({&*second}, [&] { return second_log.messages.size() == 100; }));
  EXPECT_EQ(second_log.messages, wanted);
}

TEST_P(NodeRestart, KeepsWhatIsSentBehindTheCallOfASuccessor) {
  connect_both();
  send(0, 10);
  end_second();
  start_second_again();
  const auto end = now() + 400ms;  // in which the first calls it
  ASSERT_TRUE(turn({&*first}, [&] { return now() > end; }));
  send(10, 20);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 20; }));
  expect_all_once();
}

TEST_P(NodeRestart, SendsNothingBesideWhatASuccessorInherits) {
  connect_both();
  const std::string socket = "unix://" + directory_.path() + "/first";
  ASSERT_TRUE(first->listen(socket));
  send(0, 100);
  end_second();
  start_second_again();
  ASSERT_TRUE(second->connect(1, socket));
  const auto slowly = [&] {
    second->poll({.messages = 1});
    return first->stats().registrations > 1 && second_log.messages.size() >= 100;
  };
  ASSERT_TRUE(turn({&*first}, slowly));
  send(100, 110);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() >= 110; }));
  expect_all_once();
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeRestart, ::testing::Values(node_kinds().at(1)),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
