// How a stream's sender dials: refusals, time limits, full backlogs, names.
#include <poll.h>
#include <sys/wait.h>

#include "child_process.h"
#include "counting_allocator.h"
#include "full_listener.h"
#include "numbered_text.h"
#include "plain_socket.h"
#include "stream_bytes.h"
#include "stream_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using StreamDial = Stream;
INSTANTIATE_TEST_SUITE_P(Channel, StreamDial,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@",
                                           "unix:///tmp/atbus-"),
                         stream_name);

TEST_P(StreamDial, ThatDidNotWaitIsToldOfTheRefusalLater) {
  open_receiver().close();
  auto out = sender::open(address, {.connect_timeout = 0ns});
  if (!out) {  // a Unix socket knows at once
    EXPECT_EQ(out.error(), errc::not_found);
    return;
  }
  ASSERT_TRUE(out->send(as_bytes("early")));
  EXPECT_EQ(out->flush(patience), errc::not_found);
  EXPECT_EQ(out->send(as_bytes("late")), errc::not_found);
  EXPECT_EQ(out->wait_writable(patience), errc::not_found);
  std::vector<std::string> back;
  ASSERT_TRUE(out->take_back([&](bytes_view m, errc) { back.emplace_back(as_text(m)); }));
  EXPECT_EQ(back, std::vector<std::string>{"early"});
}

TEST_P(StreamDial, GivesUpAtTheConnectTimeout) {
  if (address.find("/tmp") != std::string::npos)
    GTEST_SKIP() << "the abstract name stands for both";
  const full_listener listener{address};
  const auto start = now();
  auto out = sender::open(listener.address(), {.connect_timeout = 50ms});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), errc::timed_out) << out.error().text();
  EXPECT_NE(out.error().text().find("timeout"), std::string::npos) << out.error().text();
  EXPECT_GE(now() - start, 50ms);
}

// A host that answers nothing: the kernel would try for minutes.
TEST(StreamSenderTcp, NoAttemptLastsLongerThanTheConnectTimeout) {
  const full_listener listener{"ipv6://[::1]:0"};
  static std::atomic<int> attempts;
  attempts = 0;
  const auto saved = detail::kernel();
  detail::kernel().connect = [](int fd, const sockaddr* to, socklen_t length) {
    ++attempts;
    return ::connect(fd, to, length);
  };
  auto out = sender::open(listener.address(), {.connect_timeout = 20ms, .reconnect_min = 1ms});
  ASSERT_TRUE(out) << out.error().text();
  const auto deadline = now() + patience;
  while (attempts < 3 && now() < deadline)
    (void)out->flush(10ms);
  detail::kernel() = saved;
  EXPECT_GE(attempts, 3);
}

TEST(StreamSenderUnix, WaitsWhileTheBacklogIsFull) {
  const full_listener listener{"unix://@full-" + std::to_string(getpid())};
  auto out = sender::open(listener.address(), {.connect_timeout = 0ns});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("queued")));
  EXPECT_EQ(out->flush(5ms), errc::would_block);
  EXPECT_FALSE(out->receiver_alive());
  listener.accept_all();
  EXPECT_TRUE(out->flush(patience));
  auto peer = listener.accept();
  // Its hello and the message.
  EXPECT_NE(peer.receive(56).find("queued"), std::string::npos);
}

// A receiver that is stopped: the kernel does not tell when its backlog has room again.
TEST(StreamSenderUnix, AsksAFullBacklogNoLongerThanTheConnectTimeout) {
  const full_listener listener{"unix://@full-for-long-" + std::to_string(getpid())};
  auto out = sender::open(listener.address(), {.connect_timeout = 20ms, .reconnect_min = 10s});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("queued")));
  EXPECT_EQ(out->flush(100ms), errc::would_block);
  EXPECT_GT(out->longest_sleep(), 1s) << "no pause before it dials again";
  EXPECT_EQ(out->close(0ns, [](bytes_view) {}), 1U);
}

TEST(StreamSenderUnix, ClosesWhenItsLastAttemptAtAFullBacklogIsOver) {
  const full_listener listener{"unix://@full-for-good-" + std::to_string(getpid())};
  auto out = sender::open(listener.address(), {.connect_timeout = 20ms, .reconnect_min = 1ms});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("queued")));
  const auto start = now();
  EXPECT_EQ(out->close(10s, [](bytes_view) {}), 1U);
  EXPECT_LT(now() - start, 5s);
}

TEST_P(StreamDial, MessagesOfASenderThatDidNotWaitArrive) {
  auto inbox = open_receiver();
  auto out = open_sender({.connect_timeout = 0ns});
  std::vector<std::string> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(std::to_string(i));
    ASSERT_TRUE(out.send(as_bytes(sent.back())));
  }
  EXPECT_EQ(collect(inbox, 100, &out), sent);
}

TEST(StreamSenderDns, FindsALocalListener) {
  for (int i = 0; i < 20; ++i) {
    auto inbox = receiver::open("ipv4://127.0.0.1:0");
    ASSERT_TRUE(inbox);
    const std::string at = inbox->address();
    // Also where localhost is ::1 first: nothing listens there.
    auto out =
        sender::open("dns://localhost" + at.substr(at.rfind(':')), {.connect_timeout = patience});
    ASSERT_TRUE(out) << out.error().text();
    ASSERT_TRUE(out->send(as_bytes("by name")));
    std::string got;
    EXPECT_TRUE(repeat_until([&] { return !got.empty(); },
                             [&] {
                               inbox->poll([&](bytes_view m) { got = as_text(m); });
                               (void)inbox->wait(1ms);
                             }));
    EXPECT_EQ(got, "by name");
  }
}

TEST(StreamSenderDns, AnAnswerWakesWhoWaitsForIt) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0");
  ASSERT_TRUE(inbox);
  const std::string at = inbox->address();
  auto out = sender::open("dns://localhost" + at.substr(at.rfind(':')), {.connect_timeout = 0ns});
  ASSERT_TRUE(out) << out.error().text();
  const auto deadline = now() + patience;
  while (!out->receiver_alive() && now() < deadline) {
    pollfd interest{.fd = out->descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&interest, 1, 30'000), 1) << "nobody tells of the answer";
    out->finish_sleep();
  }
  EXPECT_TRUE(out->receiver_alive());
}

TEST(StreamSenderDns, UnknownNameIsNotFound) {
  auto out = sender::open("dns://no-such-host.invalid:1234", {.connect_timeout = 10s});
  ASSERT_FALSE(out);
  if (out.error() == errc::timed_out || out.error() == errc::system_error)
    GTEST_SKIP() << "nobody answers for names here: " << out.error().text();
  EXPECT_EQ(out.error(), errc::not_found);
  EXPECT_NE(out.error().text().find("no-such-host.invalid"), std::string::npos)
      << out.error().text();
}

TEST(StreamSenderDns, MayBeDestroyedWhileItIsAskedFor) {
  for (int i = 0; i < 20; ++i) {
    auto out = sender::open("dns://localhost:9", {.connect_timeout = 0ns, .linger = 0ns});
    ASSERT_TRUE(out) << out.error().text();
    ASSERT_TRUE(out->send(as_bytes("never sent")));
  }
}

// While one thread waits for its connection, others may fork.
TEST(StreamSenderFork, IsNotHeldUpByAThreadThatDials) {
  static std::atomic<bool> dialling{false};
  static const auto connect = detail::kernel().connect;
  detail::kernel().connect = [](int fd, const sockaddr* to, socklen_t length) {
    const int done = connect(fd, to, length);
    const int code = errno;
    dialling = true;
    errno = code;
    return done;
  };
  std::atomic<bool> forked{false};
  auto listener = std::make_optional<full_listener>("ipv4://127.0.0.1:0");
  std::thread dialler{[&forked, at = listener->address()] {
    auto out = sender::open(at, {.connect_timeout = patience});
    EXPECT_FALSE(out);
    EXPECT_TRUE(forked.load()) << "the fork had to wait for the connection";
  }};
  EXPECT_TRUE(repeat_until([] { return dialling.load(); }, [] { std::this_thread::yield(); }));
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  forked = true;
  listener.reset();  // who dials is refused with its next attempt
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  dialler.join();
  detail::kernel().connect = connect;
}

}  // namespace
}  // namespace atbus
