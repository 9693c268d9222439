// How often a node goes to the kernel to write.
#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

class NodeWrites : public ::testing::Test {
 protected:
  void SetUp() override {
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
      ++writes;
      return ::sendmsg(fd, message, flags);
    };
    const std::string name = "unix://@writes-test-" + std::to_string(getpid()) + "?shm=false";
    ASSERT_TRUE(answering.listen(name));
    ASSERT_TRUE(asking.connect(2, name));
  }
  void TearDown() override { detail::kernel() = saved; }

  static inline std::uint64_t writes = 0;

  detail::kernel_calls saved = detail::kernel();
  node asking{1};
  node answering{2};
};

TEST_F(NodeWrites, AnAnswerTakesItsAcknowledgementAlong) {
  constexpr std::uint64_t questions = 50;
  std::uint64_t answers = 0;
  answering.on_message([this](const message& asked) {
    ASSERT_TRUE(answering.send(asked.source(), 0, asked.bytes()));
  });
  asking.on_message([&](const message&) { ++answers; });
  std::uint64_t of_answers = 0;
  std::uint64_t acknowledgements = 0;
  for (std::uint64_t i = 0; i != questions + 1; ++i) {
    ASSERT_TRUE(asking.send(2, 0, "?"));
    if (i == 1) {  // the first one set up the link
      of_answers = 0;
      acknowledgements = answering.stats().acknowledgements;
    }
    // Time itself: an acknowledgement goes with an answer only if 100 us have passed since the last one.
    std::this_thread::sleep_for(1ms);
    for (const auto until = now() + 20s; answers != i + 1 && now() < until;) {
      asking.poll();
      writes = 0;
      answering.poll();
      of_answers += writes;
    }
    ASSERT_EQ(answers, i + 1);
  }
  EXPECT_GT(answering.stats().acknowledgements - acknowledgements, questions / 2);
  EXPECT_EQ(of_answers, questions);
}

}  // namespace
}  // namespace atbus
