// Streams on libuv loops.
#include "loop_fixture.h"
#include "plain_socket.h"
#include "system/kernel.h"

namespace atbus {
namespace {

class StreamLoop : public Loop {
 protected:
  void SetUp() override {
    Loop::SetUp();
    if (address.starts_with("unix"))
      address += "?shm=0";  // through the socket alone
  }
  void TearDown() override {
    detail::kernel() = saved_;
    Loop::TearDown();
  }
  loop_sender bind_sender(const sender_options& options = {}) {
    auto bound = loop_sender::attach(&loop, open_sender(options));
    EXPECT_TRUE(bound) << bound.error().text();
    return std::move(bound).value();
  }
  // A queue and kernel buffers that are full soon.
  static sender_options narrow() {
    sender_options options;
    options.socket.send_buffer = 16 * 1024;
    options.buffer = send_buffer_kind::growing;
    options.send_buffer_size = 64 * 1024;
    options.message_limit = 1024;
    options.linger = 0ns;
    return options;
  }
  [[nodiscard]] test::plain_socket dial() const {
    return test::plain_socket::connect(address.substr(0, address.find('?')));
  }

  detail::kernel_calls saved_ = detail::kernel();
};

INSTANTIATE_TEST_SUITE_P(Channel, StreamLoop, ::testing::Values("ipv6://[::1]:", "unix://@"),
                         scheme_name);

TEST_P(StreamLoop, DeliversBetweenChannelsOfOneLoop) {
  constexpr int count = 1000;
  constexpr std::size_t senders = 20;
  std::vector<int> next(senders);
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view m) {
    const std::string text{as_text(m)};
    const std::size_t colon = text.find(':');
    EXPECT_EQ(std::stoi(text.substr(colon + 1)), next[std::stoul(text.substr(0, colon))]++);
    ++got;
  });
  std::vector<loop_sender> out;
  for (std::size_t i = 0; i < senders; ++i)
    out.push_back(bind_sender());
  for (int n = 0; n < count / 20; ++n) {
    for (std::size_t i = 0; i < senders; ++i)
      ASSERT_TRUE(out[i]->send(as_bytes(std::to_string(i) + ":" + std::to_string(n))));
  }
  EXPECT_TRUE(run_until([&] { return got == count; }));
  EXPECT_TRUE(sleeps_through(50ms));
}

TEST_P(StreamLoop, WritesATurnsMessagesInOneCallAndNothingTwice) {
  static int calls = 0;
  static const auto sendmsg = detail::kernel().sendmsg;
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  auto out = bind_sender();
  ASSERT_TRUE(out->send(as_bytes("first")));
  ASSERT_TRUE(run_until([&] { return got == 1; }));
  settle();
  calls = 0;
  detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
    ++calls;
    return sendmsg(fd, message, flags);
  };
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(out->send(as_bytes("one of many")));
  EXPECT_EQ(calls, 0) << "before the end of the turn";
  EXPECT_TRUE(run_until([&] { return got == 101; }));
  settle();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(got, 101);
}

TEST_P(StreamLoop, TellsWhenThereIsRoom) {
  constexpr int count = 2000;
  const std::string message(1000, 'm');
  int got = 0;
  receiver_options options{.message_limit = 1024};
  options.socket.receive_buffer = 16 * 1024;
  auto inbox = loop_receiver::attach(&loop, open_receiver(options), [&](bytes_view) { ++got; });
  ASSERT_TRUE(inbox);
  auto out = bind_sender(narrow());
  int sent = 0;
  int calls = 0;
  const auto go_on = [&] {
    ++calls;
    while (sent < count && out->send(as_bytes(message)))
      ++sent;
  };
  out->on_writable(go_on);
  go_on();
  EXPECT_LT(sent, count);
  EXPECT_TRUE(run_until([&] { return got == count; }));
  EXPECT_GT(calls, 1);
  EXPECT_TRUE(sleeps_through(50ms));
}

TEST_P(StreamLoop, SenderMayBeDestroyedInsideItsHandler) {
  const std::string message(1000, 'm');
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  std::optional<loop_sender> out{bind_sender(narrow())};
  bool called = false;
  (*out)->on_writable([&] {
    called = true;
    out.reset();
  });
  while ((*out)->send(as_bytes(message))) {
  }
  EXPECT_TRUE(run_until([&] { return called; }));
  EXPECT_TRUE(run_until([&] { return inbox->stats().connections == 0; }));
}

TEST_P(StreamLoop, ReceiverMayBeDestroyedInsideItsHandlers) {
  for (const bool of_problems : {false, true}) {
    if (of_problems)
      address = fresh_address();
    std::optional<loop_receiver> inbox;
    inbox.emplace(bind_receiver([&](bytes_view) { inbox.reset(); }));
    (*inbox)->on_problem([&](const error&) { inbox.reset(); });
    auto out = open_sender();
    std::optional<test::plain_socket> unproven;
    if (of_problems) {
      unproven.emplace(dial());
      ASSERT_TRUE(unproven->send(std::string(100, 'x')));
    } else {
      ASSERT_TRUE(out.send(as_bytes("one")));
      ASSERT_TRUE(out.send(as_bytes("two")));
    }
    EXPECT_TRUE(run_until([&] { return !inbox; }));
  }
}

TEST_P(StreamLoop, IdleWithAThousandConnectionsSleeps) {
  int got = 0;
  auto inbox = loop_receiver::attach(&loop, open_receiver({.backlog = 1024, .unconfirmed = 1000}),
                                     [&](bytes_view) { ++got; });
  ASSERT_TRUE(inbox);
  sender_options small;
  small.send_buffer_number = 0;
  std::vector<sender> all;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(open_sender(small));
    ASSERT_TRUE(all.back().send(as_bytes("here")));
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  EXPECT_TRUE(run_until([&] { return got == 1000; }));
  EXPECT_TRUE(sleeps_through(300ms));
}

// A long sleep has begun, until the confirm timeout of somebody silent, when a shorter one is due.
TEST_P(StreamLoop, AnEarlierEndOfTheSleepReplacesALaterOne) {
  static bool out_of_them = false;
  static const auto accept = detail::kernel().accept;
  out_of_them = false;
  detail::kernel().accept = [](int fd, int flags) {
    if (!std::exchange(out_of_them, false))
      return accept(fd, flags);
    errno = EMFILE;
    return -1;
  };
  int got = 0;
  auto inbox = loop_receiver::attach(&loop, open_receiver({.confirm_timeout = 1h}),
                                     [&](bytes_view) { ++got; });
  ASSERT_TRUE(inbox);
  const auto silent = dial();
  settle();
  ASSERT_EQ((*inbox)->stats().connections, 1U);
  const auto start = now();
  out_of_them = true;
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("accepted after the pause")));
  EXPECT_TRUE(run_until([&] { return got == 1; }));
  EXPECT_LT(now() - start, 29s) << "woken by the end of the test alone";
}

TEST_P(StreamLoop, SilentPeersAreClosedWhileItSleeps) {
  auto inbox =
      loop_receiver::attach(&loop, open_receiver({.confirm_timeout = 30ms}), [](bytes_view) {});
  ASSERT_TRUE(inbox);
  const auto silent = dial();
  EXPECT_TRUE(run_until([&] { return (*inbox)->stats().unconfirmed_dropped == 1; }));
}

TEST_P(StreamLoop, SenderReconnectsByItself) {
  int got = 0;
  std::optional<loop_receiver> inbox{bind_receiver([&](bytes_view) { ++got; })};
  auto out = bind_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  ASSERT_TRUE(out->send(as_bytes("x")));
  ASSERT_TRUE(run_until([&] { return got == 1; }));
  inbox.reset();
  EXPECT_TRUE(run_until([&] { return !out->receiver_alive(); }));
  ASSERT_TRUE(out->send(as_bytes("y")));
  inbox.emplace(bind_receiver([&](bytes_view) { ++got; }));
  EXPECT_TRUE(run_until([&] { return got == 2; }));
  EXPECT_EQ(out->stats().reconnects, 1U);
}

}  // namespace
}  // namespace atbus
