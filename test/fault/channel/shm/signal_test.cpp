// Processes under a fast timer, whose signals interrupt what they can.
#include <csignal>

#include "fault/channel/drill.h"
#include "system/kernel.h"

namespace atbus::test::signal {
namespace {

enum role : std::uint32_t { interrupted };

bool may_be_interrupted() {
  sigset_t blocked;
  require(pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0, "pthread_sigmask");
  return sigismember(&blocked, SIGALRM) == 0;
}

// A tmpfs that is interrupted while it reserves memory gives back what it has reserved so far. Where
// the next signal is always nearer than the end of a large lane, trying again is not enough.
TEST(FastTimer, DoesNotKeepASenderFromReservingItsLane) {
  drill world{1};
  child_process process = world.start(interrupted, [&world] {
    auto in = required(world.open_receiver());
    static const auto fallocate = detail::kernel().fallocate;
    detail::kernel().fallocate = [](int fd, int mode, off_t offset, off_t length) {
      if (!may_be_interrupted())
        return fallocate(fd, mode, offset, length);
      errno = EINTR;
      return -1;
    };
    auto out = required(world.open_sender());
    require(may_be_interrupted(), "its signals stay blocked");
    world.memory().opened[interrupted].add();
  });
  EXPECT_TRUE(world.wait_opened(interrupted)) << "it never opened";
  if (world.memory().opened[interrupted].get() == 0)
    process.kill_and_wait();
  else
    EXPECT_EQ(process.wait_end(), "exit 0");
}

}  // namespace
}  // namespace atbus::test::signal
