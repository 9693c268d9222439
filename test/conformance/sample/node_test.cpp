// The sample programs of nodes, run as a newcomer runs them.
#include <fstream>
#include <sstream>

#include "sample_run.h"
#include "scratch_directory.h"

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

TEST_F(SampleRun, AFileGoesFromOneProcessToAnother) {
  const test::scratch_directory from;
  const test::scratch_directory into;
  const std::string sent = from.path() + "/picture.raw";
  const std::string taken = into.path() + "/picture.raw";
  const auto read = [](const std::string& path) {
    std::ostringstream all;
    all << std::ifstream{path, std::ios::binary}.rdbuf();
    return all.str();
  };
  constexpr int words = 500000;
  {
    std::ofstream file{sent, std::ios::binary};
    for (int i = 0; i != words; ++i)
      file << i << '\n';
  }
  child_process receiver = start("blob_receive_file", into.path().c_str(), address_.c_str());
  child_process sender = start("blob_send_file", sent.c_str(), address_.c_str());
  EXPECT_EQ(sender.wait_end(), "exit 0");
  EXPECT_EQ(receiver.wait_end(), "exit 0");
  EXPECT_TRUE(read(taken) == read(sent));
  EXPECT_FALSE(std::ifstream{taken + ".part"});
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
