// The sample programs of sample/channel, run as a newcomer runs them.
#include <unistd.h>

#include "sample_run.h"

namespace atbus {
namespace {

class ChannelSample : public SampleRun {
 protected:
  child_process start(const std::string& sample) const {
    return SampleRun::start("channel_" + sample, address_.c_str());
  }
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
