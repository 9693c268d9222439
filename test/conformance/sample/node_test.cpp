// The sample programs of nodes, run as a newcomer runs them.
#include "sample_run.h"

namespace atbus {
namespace {

TEST_F(SampleRun, HelloComesBackWhoeverStartsFirst) {
  for (const bool echo_first : {true, false}) {
    std::vector<child_process> started;
    if (echo_first)
      started.push_back(start("hello_echo", address_.c_str()));
    child_process hello = start("hello_hello", address_.c_str());
    if (!echo_first)
      started.push_back(start("hello_echo", address_.c_str()));
    EXPECT_EQ(read_line(), "hello");
    EXPECT_EQ(hello.wait_end(), "exit 0");
    started[0].kill_and_wait();
  }
}

TEST_F(SampleRun, APublishersPricesComeToEachSubscriber) {
  child_process early = start("topic_subscriber", address_.c_str());
  child_process publisher = start("topic_publisher", address_.c_str());
  for (int left = 3; left != 0; --left)
    EXPECT_EQ(read_line().substr(0, 15), "prices/apples: ");
  EXPECT_EQ(early.wait_end(), "exit 0");
  child_process late = start("topic_subscriber", address_.c_str());
  EXPECT_EQ(read_line().substr(0, 15), "prices/apples: ");
  EXPECT_EQ(late.wait_end(), "exit 0");
  publisher.kill_and_wait();
}

TEST_F(SampleRun, AGameLoopPollsOncePerFrame) {
  child_process game = start("game_loop_game_loop");
  EXPECT_NE(read_line().find("moves in"), std::string::npos);
  EXPECT_EQ(game.wait_end(), "exit 0");
}

TEST_F(SampleRun, AHandlerIsTestedOnASimulatedBus) {
  child_process test = start("tested_handler_order_desk_test");
  EXPECT_EQ(read_line(), "every order once");
  EXPECT_EQ(test.wait_end(), "exit 0");
}

}  // namespace
}  // namespace atbus
