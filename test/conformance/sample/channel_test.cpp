// The sample programs of sample/channel, run as a newcomer runs them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>

#include "child_process.h"

namespace atbus {
namespace {

using test::child_process;

class ChannelSample : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(output_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    close(output_[0]);
    if (output_[1] >= 0)
      close(output_[1]);
    unlink(("/dev/shm/atbus-segment." + name_).c_str());
    unlink(("/dev/shm/atbus-bell." + name_).c_str());
  }

  // Its standard output is what read_output returns.
  child_process start(const std::string& sample) const {
    const std::string program = std::string{ATBUS_TEST_PROGRAMS_DIR} + "/sample_channel_" + sample;
    const std::string address = "shm://" + name_;
    return child_process{[&] {
      dup2(output_[1], STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), address.c_str(), nullptr);
      return 127;
    }};
  }

  // All that the programs print until they have ended.
  std::string read_output() {
    close(output_[1]);
    output_[1] = -1;
    std::string text;
    const auto deadline = std::chrono::steady_clock::now() + test::patience;
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd p{.fd = output_[0], .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&p, 1, static_cast<int>(left.count())) <= 0)
        return text + "(no end)";
      char bytes[256];
      const ssize_t n = read(output_[0], bytes, sizeof bytes);
      if (n <= 0)
        return text;
      text.append(bytes, static_cast<std::size_t>(n));
    }
  }

  std::array<int, 2> output_{-1, -1};
  std::string name_ = "sample-" + std::to_string(getpid());
};

constexpr const char* lines = "hello\nfrom another process\nbye\n";

TEST_F(ChannelSample, ReceiverFirst) {
  auto receiver = start("receiver");
  auto sender = start("sender");
  EXPECT_EQ(read_output(), lines);
  EXPECT_EQ(sender.wait_end(), "exit 0");
  EXPECT_EQ(receiver.wait_end(), "exit 0");
}

TEST_F(ChannelSample, SenderFirst) {
  auto sender = start("sender");
  auto receiver = start("receiver");
  EXPECT_EQ(read_output(), lines);
  EXPECT_EQ(sender.wait_end(), "exit 0");
  EXPECT_EQ(receiver.wait_end(), "exit 0");
}

TEST_F(ChannelSample, LeavesNothingBehind) {
  auto receiver = start("receiver");
  auto sender = start("sender");
  EXPECT_EQ(read_output(), lines);
  EXPECT_EQ(receiver.wait_end(), "exit 0");
  EXPECT_NE(access(("/dev/shm/atbus-segment." + name_).c_str(), F_OK), 0);
  EXPECT_NE(access(("/dev/shm/atbus-bell." + name_).c_str(), F_OK), 0);
}

}  // namespace
}  // namespace atbus
