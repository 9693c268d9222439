// How a node waits: what it asks the machine.
#include <unistd.h>

#include "atbus/node.hpp"
#include "named_inbox.h"
#include "node/node_access.h"
#include "node/node_platform.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

// This machine, but with a budget of the test's own for spinning.
class platform_that_spins final : public detail::node_platform {
 public:
  explicit platform_that_spins(std::chrono::nanoseconds spin) : spin_(spin) {}

  [[nodiscard]] detail::node_environment environment() noexcept override {
    return machine_->environment();
  }
  bool sleep(std::chrono::nanoseconds longest) override {
    if (asked)
      asked(longest);
    return machine_->sleep(longest);
  }
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept override { return spin_; }

  // Called when the node asks whether any of its channels has something, for so long.
  std::function<void(std::chrono::nanoseconds longest)> asked;

 private:
  const std::shared_ptr<detail::node_platform> machine_ = detail::make_machine_platform({});
  const std::chrono::nanoseconds spin_;
};

class NodeWait : public ::testing::Test {
 protected:
  static std::string socket() {
    return "unix://@atbus-node-wait-" + std::to_string(getpid()) + "?shm=false";
  }

  // `two` is the node that waits.
  void start_with_spin(std::chrono::nanoseconds spin, const std::string& where = socket()) {
    platform = std::make_shared<platform_that_spins>(spin);
    two = detail::node_access::make(2, {}, platform);
    two.on_message([this](const message&) { ++got; });
    ASSERT_TRUE(two.listen(where));
    ASSERT_TRUE(one.connect(2, where));
    ASSERT_TRUE(one.send(2, 0, "first"));
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (got == 0 && std::chrono::steady_clock::now() < end)
      poll_both();
    ASSERT_EQ(got, 1U);
  }

  void poll_both() {
    one.poll();
    two.poll();
  }

  std::shared_ptr<platform_that_spins> platform;
  node one{1};
  node two{2};
  std::size_t got = 0;
};

TEST_F(NodeWait, OnThisMachineSpinsForLessThanAMillisecond) {
  const auto spin = detail::make_machine_platform({})->spin();
  EXPECT_GT(spin, 1us);
  EXPECT_LT(spin, 1ms);
}

// Waking who sleeps costs the sender more than the message.
TEST_F(NodeWait, LooksForAMomentBeforeItSleeps) {
  start_with_spin(1h);
  // What the first message brings is over; acknowledgements are the last of it.
  for (int i = 0; i != 100 && two.wait(50ms); ++i)
    poll_both();
  int looks = 0;
  bool slept = false;
  platform->asked = [&](std::chrono::nanoseconds longest) {
    slept = slept || longest != 0ns;
    if (++looks == 10) {
      EXPECT_TRUE(one.send(2, 0, "a message"));
      one.flush();
    }
  };
  EXPECT_TRUE(two.wait(10s));
  EXPECT_FALSE(slept);
  EXPECT_GE(looks, 10);
  two.poll();
  EXPECT_EQ(got, 2U);
}

// Each barrier interrupts all cores, and whoever sends to a node that is about to sleep has to ring.
class NodeWaitAtLane : public NodeWait {
 protected:
  void SetUp() override {
    detail::kernel().membarrier = [](int command, unsigned flags) {
      ++barriers;
      return before_(command, flags);
    };
  }
  void TearDown() override { detail::kernel().membarrier = before_; }

  static inline int barriers = 0;
  const test::named_inbox inbox{"node-wait"};

 private:
  static inline const decltype(detail::kernel_calls::membarrier) before_ =
      detail::kernel().membarrier;
};

TEST_F(NodeWaitAtLane, SeesAMessageWithoutABarrier) {
  start_with_spin(1h, inbox.address());
  for (int i = 0; i != 100 && two.wait(0ms); ++i)
    poll_both();
  barriers = 0;
  bool sent = false;
  platform->asked = [&](std::chrono::nanoseconds) {
    if (!std::exchange(sent, true)) {
      EXPECT_TRUE(one.send(2, 0, "a message"));
      one.flush();
    }
  };
  EXPECT_TRUE(two.wait(10s));
  EXPECT_TRUE(sent);
  EXPECT_EQ(barriers, 0);
  two.poll();
  EXPECT_EQ(got, 2U);
}

TEST_F(NodeWaitAtLane, SeesWhatComesThroughASocket) {
  start_with_spin(1h, inbox.address());
  ASSERT_TRUE(two.listen(socket()));
  node three{3};
  ASSERT_TRUE(three.connect(2, socket()));
  ASSERT_TRUE(three.send(2, 0, "through the socket"));
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (got == 1 && std::chrono::steady_clock::now() < end) {
    three.poll();
    EXPECT_TRUE(two.wait(10s));
    two.poll();
  }
  EXPECT_EQ(got, 2U);
}

TEST_F(NodeWait, SleepsAtOnceWhenNothingHasComeForLong) {
  start_with_spin(50us);
  int in_a_row = 0;  // waits in which nothing came: acknowledgements do at first
  for (int i = 0; i != 1000 && in_a_row != 12; ++i) {
    in_a_row = two.wait(5ms) == errc::timed_out ? in_a_row + 1 : 0;
    poll_both();
  }
  ASSERT_EQ(in_a_row, 12);
  int looks = 0;
  platform->asked = [&](std::chrono::nanoseconds longest) { looks += longest == 0ns ? 1 : 0; };
  EXPECT_EQ(two.wait(5ms), errc::timed_out);
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace atbus
