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

  // `delayed`, which dials `answering`, polls again and again, and is linked.
  void link() {
    ASSERT_TRUE(delayed.connect(2, answering.addresses().front()));
    answering.on_message([this](const message& m) { received.emplace_back(m.text()); });
    ASSERT_TRUE(poll_until([this] { return delayed.endpoints().front().connected(); }));
    ASSERT_TRUE(delayed.send(2, 0, "first"));
    ASSERT_TRUE(poll_until([this] { return received.size() == 1; }));
    delayed.flush();
  }
  bool poll_until(const std::function<bool()>& done) {
    for (const auto until = now() + 20s; !done() && now() < until;) {
      delayed.flush();
      delayed.poll();
      answering.poll();
    }
    return done();
  }
  // Polls answering until no more comes for sure: what was written to a Unix socket is there at once.
  std::size_t arrived() {
    while (answering.poll() != 0) {
    }
    return received.size() - 1;
  }

  // Does that within one delay of `delayed`, which nothing has written for yet. It is done again where the machine was
  // too slow for that.
  bool do_within_delay(const std::function<void()>& what) {
    for (const auto until = now() + 20s; now() < until;) {
      do
        delayed.flush();
      while (delayed.poll() != 0);
      delayed.flush();
      (void)arrived();
      received.resize(1);
      writes = 0;
      const auto begin = now();
      what();
      if (now() - begin < node_options::write_delay_max)
        return true;
    }
    return false;
  }

  static inline std::uint64_t writes = 0;

  detail::kernel_calls saved = detail::kernel();
  node asking{1};
  node answering{2};
  node delayed{3, node_options{}.write_delay(node_options::write_delay_max)};
  std::vector<std::string> received;
};

TEST_F(NodeWrites, EachPollWrites) {
  ASSERT_TRUE(asking.connect(2, answering.addresses().front()));
  ASSERT_TRUE(asking.send(2, 0, "first"));
  for (const auto until = now() + 20s; !asking.endpoints().front().connected() && now() < until;) {
    asking.poll();
    answering.poll();
  }
  asking.poll();
  writes = 0;
  for (int i = 0; i != 10; ++i) {
    ASSERT_TRUE(asking.send(2, 0, "?"));
    asking.poll();
  }
  EXPECT_EQ(writes, 10);
}

TEST_F(NodeWrites, WhatIsSentWithinTheDelayLeavesInOneWrite) {
  link();
  ASSERT_TRUE(do_within_delay([this] {
    for (int i = 0; i != 100; ++i) {
      ASSERT_TRUE(delayed.send(2, 0, std::to_string(i)));
      delayed.poll();
    }
  }));
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(arrived(), 1);
  writes = 0;
  delayed.flush();
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(arrived(), 100);
  EXPECT_EQ(received.back(), "99");
}

TEST_F(NodeWrites, AWaitEndsTheDelay) {
  link();
  ASSERT_TRUE(do_within_delay([this] {
    for (const char* const what : {"written", "delayed"}) {
      ASSERT_TRUE(delayed.send(2, 0, what));
      delayed.poll();
    }
  }));
  EXPECT_EQ(arrived(), 1);
  (void)delayed.wait(0ns);
  EXPECT_EQ(arrived(), 2);
}

TEST_F(NodeWrites, APollAfterAWaitReads) {
  link();
  int answers = 0;
  delayed.on_message([&](const message&) { ++answers; });
  ASSERT_TRUE(do_within_delay([&] {
    answers = 0;
    ASSERT_TRUE(delayed.send(2, 0, "written"));
    delayed.poll();
    EXPECT_EQ(arrived(), 1);
    ASSERT_TRUE(answering.send(3, 0, "!"));
    answering.poll();
    delayed.poll();
  }));
  EXPECT_EQ(answers, 0);
  EXPECT_TRUE(delayed.wait(20s));
  delayed.poll();
  EXPECT_EQ(answers, 1);
}

TEST_F(NodeWrites, ThePollAfterTheDelayWrites) {
  node soon{4, node_options{}.write_delay(2ms)};
  ASSERT_TRUE(soon.connect(2, answering.addresses().front()));
  int taken = 0;
  answering.on_message([&](const message&) { ++taken; });
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(soon.send(2, 0, "?"));
  for (const auto until = now() + 20s; taken != 3 && now() < until;) {
    soon.poll();
    answering.poll();
  }
  ASSERT_EQ(taken, 3);
  for (int i = 0; i != 3; ++i) {  // without a wait or a flush
    ASSERT_TRUE(soon.send(2, 0, "?"));
    soon.poll();
  }
  for (const auto until = now() + 20s; taken != 6 && now() < until;) {
    soon.poll();
    answering.poll();
  }
  EXPECT_EQ(taken, 6);
}

TEST(NodeWriteDelay, HasALimit) {
  EXPECT_TRUE(node_options{}.write_delay(10ms).check());
  const error too_long = node_options{}.write_delay(10ms + 1ns).check();
  EXPECT_EQ(too_long, errc::invalid_argument);
  EXPECT_NE(too_long.text().find("0 to 10 ms"), std::string::npos) << too_long.text();
  EXPECT_EQ(node_options{}.write_delay(-1ns).check().code(), errc::invalid_argument);
}

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
