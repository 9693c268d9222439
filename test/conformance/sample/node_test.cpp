// The sample programs of nodes, run as a newcomer runs them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "child_process.h"

namespace atbus {
namespace {

using test::child_process;

class NodeSample : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(output_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    close(output_[0]);
    if (output_[1] >= 0)
      close(output_[1]);
    // A named inbox outlives its node.
    unlink(("/dev/shm/atbus-segment." + name_).c_str());
    unlink(("/dev/shm/atbus-bell." + name_).c_str());
  }

  child_process start(const std::string& sample, const char* argument = nullptr) const {
    const std::string program = std::string{ATBUS_TEST_PROGRAMS_DIR} + "/sample_" + sample;
    return child_process{[&] {
      dup2(output_[1], STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), argument, nullptr);
      return 127;
    }};
  }

  // One line of what the programs print.
  std::string read_line() const {
    std::string text;
    pollfd p{.fd = output_[0], .events = POLLIN, .revents = 0};
    char byte = 0;
    while (::poll(&p, 1, 60'000) > 0 && read(output_[0], &byte, 1) == 1) {
      if (byte == '\n')
        return text;
      text += byte;
    }
    return text + "(no end)";
  }

  std::array<int, 2> output_{-1, -1};
  std::string name_ = "node-sample-" + std::to_string(getpid());
  std::string address_ = "shm://" + name_;
};

TEST_F(NodeSample, HelloComesBackWhoeverStartsFirst) {
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

TEST_F(NodeSample, AGameLoopPollsOncePerFrame) {
  child_process game = start("game_loop_game_loop");
  EXPECT_NE(read_line().find("moves in"), std::string::npos);
  EXPECT_EQ(game.wait_end(), "exit 0");
}

TEST_F(NodeSample, AHandlerIsTestedOnASimulatedBus) {
  child_process test = start("tested_handler_order_desk_test");
  EXPECT_EQ(read_line(), "every order once");
  EXPECT_EQ(test.wait_end(), "exit 0");
}

}  // namespace
}  // namespace atbus
