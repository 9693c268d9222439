// What a message costs whose receiver sleeps before each of them, and what it costs once they come in crowds.
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

class SparseStream : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!detail::register_for_barriers())
      GTEST_SKIP() << "the kernel has no membarrier";
    detail::kernel().membarrier = [](int command, unsigned flags) {
      ++barriers;
      return usual_.membarrier(command, flags);
    };
    auto opened =
        receiver::open(address_, {.lanes = 2, .lane_size = 64 * 1024, .message_limit = 8000});
    ASSERT_TRUE(opened) << opened.error().text();
    inbox = std::move(*opened);
    out = open_sender();
  }
  void TearDown() override {
    detail::kernel() = usual_;
    if (inbox) {
      EXPECT_TRUE(inbox->remove());
    }
  }

  [[nodiscard]] sender open_sender() const {
    auto opened = sender::open(address_);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  void sleep() {
    while (!inbox->prepare_sleep())
      poll();
  }
  void poll() {
    inbox->finish_sleep();
    (void)inbox->wait(0ns);
    got += inbox->poll([](bytes_view) {});
  }
  // Sends a message to the sleeping receiver, and returns how many barriers the next sleep takes.
  int wake(sender& from) {
    sleep();
    const int before = barriers;
    EXPECT_TRUE(from.send(as_bytes("wake up")));
    const std::size_t had = got;
    for (const auto end = now() + 60s; got == had && now() < end;)
      poll();
    sleep();
    return barriers - before;
  }

  std::optional<receiver> inbox;
  std::optional<sender> out;
  std::size_t got = 0;
  inline static int barriers = 0;

 private:
  inline static const detail::kernel_calls usual_ = detail::kernel();
  std::string address_ = std::string{GetParam()} + "sparse-" + std::to_string(getpid());
};

INSTANTIATE_TEST_SUITE_P(Channel, SparseStream, ::testing::Values("mem://", "shm://"),
                         [](const ::testing::TestParamInfo<const char*>& of) {
                           return std::string(of.param, 3);
                         });

TEST_P(SparseStream, NeedsNoBarriers) {
  EXPECT_GE(wake(*out), 1);
  for (int i = 0; i != 30; ++i)
    wake(*out);
  for (int i = 0; i != 30; ++i)
    EXPECT_EQ(wake(*out), 0) << i;
}

TEST_P(SparseStream, NeedsThemForAnotherSenderThatIsNotKnownToFence) {
  for (int i = 0; i != 30; ++i)
    wake(*out);
  sender other = open_sender();
  EXPECT_GE(wake(other), 1);
  EXPECT_EQ(wake(*out), 0);
}

TEST_P(SparseStream, NeedsThemAgainOnceItsMessagesComeInCrowds) {
  for (int i = 0; i != 30; ++i)
    wake(*out);
  EXPECT_EQ(wake(*out), 0);
  inbox->finish_sleep();
  for (int i = 0; i != 200; ++i)
    ASSERT_TRUE(out->send(as_bytes("crowd")));
  poll();
  const int before = barriers;
  sleep();
  EXPECT_GE(barriers - before, 1);
}

TEST_P(SparseStream, ASleepWithoutAMessageNeedsNone) {
  wake(*out);
  sleep();
  const int before = barriers;
  for (int i = 0; i != 10; ++i) {
    inbox->finish_sleep();
    sleep();
  }
  EXPECT_EQ(barriers - before, 0);
}

// A sender rings while it waits for room itself. What it reads then must not be the ring that tells it of that.
TEST_P(SparseStream, ItsRingsLeaveTheOneThatTellsOfRoom) {
  detail::kernel().eventfd = [](unsigned, int) {
    errno = EMFILE;
    return -1;
  };
  const std::string large(8000, 'x');
  for (int i = 0; i != 70; ++i) {
    poll();
    while (out->send(as_bytes(large))) {
    }
    ASSERT_TRUE(out->prepare_sleep());
    sleep();  // it has made room, and rings for that
    ASSERT_TRUE(out->send(as_bytes("a short one")));
    pollfd room{.fd = out->descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&room, 1, 0), 1) << i;
    out->finish_sleep();
  }
}

}  // namespace
}  // namespace atbus
