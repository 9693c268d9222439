// Commands of which there are too many.
#include "node_commands_fixture.h"

namespace atbus::detail {
namespace {

class TooManyCommands : public NodeCommands {
 protected:
  void ask_as_often_as_it_may() {
    connect();
    keep();
    for (int i = 0; i < 4096; ++i)
      ASSERT_TRUE(ask({"x"}, answer)) << i;
    EXPECT_EQ(ask({"x"}, answer), errc::would_block);
  }

  told answer;
};

TEST_F(TooManyCommands, AreLimitedInNumber) {
  ASSERT_NO_FATAL_FAILURE(ask_as_often_as_it_may());
  net.run_for(10ms);
  ASSERT_TRUE(kept.at(0).reply("room"));
  two.node.wake();
  net.run_for(10ms);
  EXPECT_EQ(answer.times, 1);
  EXPECT_TRUE(ask({"x"}, answer));
  net.run_for(5s);
  EXPECT_EQ(answer.times, 4097);
}

TEST_F(TooManyCommands, SayWhenThereIsRoomForMoreOfThem) {
  ASSERT_NO_FATAL_FAILURE(ask_as_often_as_it_may());
  EXPECT_EQ(ask({"x"}, answer), errc::would_block);
  net.run_for(10ms);
  const auto answer_until = [&](std::size_t left) {
    for (; kept.size() > left; kept.pop_back())
      ASSERT_TRUE(kept.back().reply("room"));
    two.node.wake();
    net.run_for(10ms);
  };
  answer_until(2049);
  EXPECT_EQ(one.writable, 0);
  answer_until(2048);
  EXPECT_EQ(one.writable, 1);
  answer_until(0);
  EXPECT_EQ(one.writable, 1);
}

TEST_F(NodeCommands, AreHeldBackByFullQueuesOnBothWays) {
  net.conditions.queue_size = 4000;
  net.conditions.kernel_holds = 1000;
  party three{net, 3, plain().send_buffer_size(4000)};
  three.connect(2);
  ASSERT_TRUE(net.run_until([&] { return three.is_connected(2); }, 5s));
  on_command = [](command& c) { c.reply(std::string(200, 'y')); };
  int asked = 0;
  told answer;
  const std::string text(200, 'x');
  for (int round = 0; round < 1000; ++round) {
    while (three.node.user().command(2, {"x", text}, 10min, answer.write()))
      ++asked;
    three.node.wake();
    net.run_for(1ms);
  }
  ASSERT_TRUE(net.run_until([&] { return answer.times == asked; }, 20min));
  EXPECT_GT(asked, 1000);
  EXPECT_GT(three.writable, 10);
  EXPECT_EQ(three.core().stats().replies, static_cast<std::uint64_t>(asked));
}

}  // namespace
}  // namespace atbus::detail
