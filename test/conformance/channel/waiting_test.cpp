// Sleeping without missing anything, on both sides.
#include <poll.h>

#include <ctime>
#include <future>

#include "channel_kind.h"

namespace atbus {
namespace {

using Waiting = ChannelTest;
INSTANTIATE_TEST_SUITE_P(Channel, Waiting, ::testing::ValuesIn(channel_kinds), kind_name);

class LaneWaiting : public ChannelTest {};
INSTANTIATE_TEST_SUITE_P(Channel, LaneWaiting, ::testing::ValuesIn(lane_kinds), kind_name);

std::chrono::nanoseconds thread_cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

TEST_P(Waiting, EndsAtItsDeadline) {
  auto inbox = open_receiver();
  auto out = open_sender();
  drain(inbox);
  const auto start = now();
  EXPECT_EQ(inbox.wait(20ms), errc::timed_out);
  EXPECT_GE(now() - start, 20ms);
  EXPECT_EQ(inbox.wait(0ns), errc::timed_out);
}

TEST_P(Waiting, ReturnsAtOnceWhenSomethingIsThere) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(inbox.wait(30s));
  EXPECT_EQ(drain(inbox).size(), 1U);
}

TEST_P(Waiting, SleepingReceiverIsWokenByEachMessage) {
  auto inbox = open_receiver({.spin = 0ns});
  std::promise<std::string> echo_address;
  std::thread other{[&] {
    auto out = open_sender();
    auto back = receiver::open(GetParam().fresh_address(), {.spin = 0ns});
    ASSERT_TRUE(back);
    echo_address.set_value(back->address());
    ASSERT_TRUE(out.send(as_bytes("ready")));
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(collect(*back, 1).size(), 1U) << i;
      ASSERT_TRUE(out.send(as_bytes("pong")));
    }
    (void)back->remove();
  }};
  ASSERT_EQ(collect(inbox, 1).size(), 1U);
  auto ping = sender::open(echo_address.get_future().get());
  ASSERT_TRUE(ping);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(ping->send(as_bytes("ping")));
    ASSERT_EQ(collect(inbox, 1).size(), 1U) << i;
  }
  other.join();
}

TEST_P(Waiting, FullSenderSleepsUntilThereIsRoom) {
  // The kernel's own buffers might hold all of it.
  constexpr int of_kernel = 128 * 1024;
  auto inbox = open_receiver({.lanes = 1,
                              .lane_size = 4096,
                              .message_limit = 1024,
                              .socket = {.receive_buffer = of_kernel}});
  std::atomic<bool> was_full{false};
  std::thread reader{[&] {
    was_full.wait(false);  // a fast reader would never let it fill
    std::size_t got = 0;
    const auto deadline = now() + 120s;
    while (got < 20000 && now() < deadline) {
      got += inbox.poll([](bytes_view) {}, {.messages = 50});
      (void)inbox.wait(100ms);
    }
    EXPECT_EQ(got, 20000U);
  }};
  auto out = open_sender({.spin = 0ns,
                          .socket = {.send_buffer = of_kernel},
                          .send_buffer_size = 4096,
                          .send_buffer_number = 32});
  int called = 0;
  out.on_writable([&] { ++called; });
  for (int i = 0; i < 20000;) {
    const auto s = out.send(as_bytes("a message of some length"));
    if (s) {
      ++i;
    } else {
      was_full = true;
      was_full.notify_one();
      ASSERT_EQ(s, errc::would_block);
      ASSERT_TRUE(out.wait_writable(30s));
    }
  }
  was_full = true;
  was_full.notify_one();
  EXPECT_TRUE(out.flush(10s));
  reader.join();
  EXPECT_GT(called, 0);
}

TEST_P(Waiting, WaitForRoomEndsAtItsDeadline) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  status waited;
  std::chrono::nanoseconds took{0};
  do {  // a network takes some more while one waits
    while (out.send(as_bytes("fill"))) {
    }
    const auto start = now();
    waited = out.wait_writable(20ms);
    took = now() - start;
  } while (waited);
  EXPECT_EQ(waited, errc::timed_out);
  EXPECT_GE(took, 20ms);
  EXPECT_EQ(out.wait_writable(20ms, 5000), errc::message_too_large);
}

// A program with a loop of its own stops sending at would_block and calls nothing but poll_writable.
TEST_P(Waiting, PollingAloneTellsAFullSenderOfRoom) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  bool told = false;
  out.on_writable([&] { told = true; });
  while (out.send(as_bytes("fill"))) {
  }
  const auto deadline = now() + 30s;
  while (!told && now() < deadline) {
    (void)out.poll_writable();
    if (inbox.poll([](bytes_view) {}) == 0)
      (void)inbox.wait(1ms);
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(out.send(as_bytes("more")));
}

TEST_P(LaneWaiting, SenderThatWaitsIsServedByASuccessor) {
  auto first = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender({.spin = 0ns});
  while (out.send(as_bytes("fill"))) {
  }
  first.close();
  std::atomic<bool> waiting{false};
  std::thread waiter{[&] {
    waiting = true;
    EXPECT_TRUE(out.wait_writable(30s));
    EXPECT_TRUE(out.send(as_bytes("at last")));
  }};
  while (!waiting)
    std::this_thread::yield();
  auto second = open_receiver();
  std::string last;
  const auto deadline = now() + 30s;
  while (last != "at last" && now() < deadline) {
    second.poll([&](bytes_view m) { last = as_text(m); });
    (void)second.wait(10ms);
  }
  waiter.join();
  EXPECT_EQ(last, "at last");
}

// A lane that is full publishes nothing any more, and publishing is what finds an alert.
TEST_P(LaneWaiting, SenderThatIsFullLearnsOfTheRemovalFromItsNextSend) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  while (out.send(as_bytes("fill"))) {
  }
  ASSERT_TRUE(inbox.remove());
  EXPECT_EQ(out.send(as_bytes("late")), errc::retired);
}

TEST_P(LaneWaiting, PollingTellsAFullSenderOfTheRemoval) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  while (out.send(as_bytes("fill"))) {
  }
  ASSERT_TRUE(inbox.remove());
  EXPECT_TRUE(out.poll_writable());
  EXPECT_EQ(out.send(as_bytes("late")), errc::retired);
}

TEST_P(Waiting, IdlePairUsesNoCpu) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  drain(inbox);
  // The spin budget adapts to silence; and on a busy machine the time of others may count as ours.
  std::chrono::nanoseconds least = 1h;
  for (int i = 0; i < 20 && least >= 2ms; ++i) {
    const auto before = thread_cpu_time();
    EXPECT_EQ(inbox.wait(500ms), errc::timed_out);
    least = std::min(least, thread_cpu_time() - before);
  }
  EXPECT_LT(least, 2ms);
}

// prepare_sleep and finish_sleep are the library's verbs for event loops, which are under test here and
// below: they return at once, and nothing sleeps for a time. The events are waited for with poll.
TEST_P(Waiting, DescriptorIsReadableWhenAPreparedReceiverGetsAMessage) {
  auto inbox = open_receiver();
  auto out = open_sender();
  drain(inbox);
  while (inbox.wait(1ms))
    drain(inbox);  // the sender's connection has been seen
  ASSERT_TRUE(inbox.prepare_sleep());
  pollfd p{.fd = inbox.descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  ASSERT_TRUE(out.send(as_bytes("wake")));
  EXPECT_EQ(::poll(&p, 1, 30'000), 1);
  inbox.finish_sleep();
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"wake"});
}

// prepare_sleep again: it only says whether a loop may sleep now.
TEST_P(Waiting, PreparingFailsWhenSomethingIsThere) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_FALSE(inbox.prepare_sleep());
  EXPECT_EQ(drain(inbox).size(), 1U);
}

TEST_P(LaneWaiting, LaneParkedWhileOthersAreBusyIsHeardAgain) {
  auto inbox = open_receiver({.lanes = 2});
  auto busy = open_sender();
  auto quiet = open_sender();
  ASSERT_TRUE(quiet.send(as_bytes("q")));
  for (int pass = 0; pass < 2000; ++pass) {
    ASSERT_TRUE(busy.send(as_bytes("b")));
    drain(inbox);
  }
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(quiet.send(as_bytes("q")));
    EXPECT_EQ(drain(inbox), std::vector<std::string>{"q"});
    for (int pass = 0; pass < 600; ++pass) {
      ASSERT_TRUE(busy.send(as_bytes("b")));
      drain(inbox);
    }
  }
}

}  // namespace
}  // namespace atbus
