// How a node waits: what it asks the kernel.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "atbus/node/node.hpp"
#include "system/kernel.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

class NodeWait : public ::testing::Test {
 protected:
  NodeWait() { detail::kernel().epoll_wait = epoll_wait; }
  ~NodeWait() override { detail::kernel() = saved_; }
  void SetUp() override {
    two.on_message([this](const message&) { ++got; });
    const std::string where = "unix://@atbus-node-wait-" + std::to_string(getpid()) + "?shm=false";
    ASSERT_TRUE(two.listen(where));
    ASSERT_TRUE(one.connect(2, where));
    ASSERT_TRUE(one.send(2, 0, "first"));
    ASSERT_TRUE(poll_until_got(1));
  }

  bool poll_until_got(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (got < count && std::chrono::steady_clock::now() < end) {
      one.poll();
      two.poll();
    }
    return got >= count;
  }

  // Called when a node asks whether any of its channels has something, for so many nanoseconds.
  static inline std::function<void(std::int64_t timeout)> asked;

  node one{1};
  node two{2};
  std::size_t got = 0;

 private:
  static int epoll_wait(int epoll, epoll_event* events, int count, std::int64_t timeout) {
    if (asked && count == 1)
      asked(timeout);
    return saved_.epoll_wait(epoll, events, count, timeout);
  }
  static inline const detail::kernel_calls saved_ = detail::kernel();
};

// Waking who sleeps costs the sender more than the message.
TEST_F(NodeWait, LooksForAMomentBeforeItSleeps) {
  int without_sleep = 0;
  // A machine that is busy elsewhere may leave no time for it.
  for (int round = 0; round != 200 && without_sleep == 0; ++round) {
    for (int i = 0; i != 10; ++i) {
      one.poll();
      two.poll();
    }
    bool sent = false;
    bool slept = false;
    asked = [&](std::int64_t timeout) {
      slept = slept || timeout != 0;
      if (!std::exchange(sent, true)) {
        EXPECT_TRUE(one.send(2, 0, "a message"));
        one.flush();
      }
    };
    const std::size_t before = got;
    EXPECT_TRUE(two.wait(10s));
    asked = nullptr;
    ASSERT_TRUE(!sent || poll_until_got(before + 1));
    without_sleep += sent && !slept ? 1 : 0;
  }
  EXPECT_EQ(without_sleep, 1);
}

TEST_F(NodeWait, SleepsAtOnceWhenNothingHasComeForLong) {
  int in_a_row = 0;  // waits in which nothing came: acknowledgements do at first
  for (int i = 0; i != 1000 && in_a_row != 12; ++i) {
    in_a_row = two.wait(5ms) == errc::timed_out ? in_a_row + 1 : 0;
    one.poll();
    two.poll();
  }
  ASSERT_EQ(in_a_row, 12);
  int looks = 0;
  asked = [&](std::int64_t timeout) { looks += timeout == 0 ? 1 : 0; };
  const status how = two.wait(5ms);
  asked = nullptr;
  EXPECT_EQ(how, errc::timed_out);
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace atbus
