// What a stream's sender does when it loses its connection.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "child_process.h"
#include "counting_allocator.h"
#include "numbered_text.h"
#include "plain_socket.h"
#include "stream_bytes.h"
#include "stream_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using StreamReconnect = Stream;
INSTANTIATE_TEST_SUITE_P(Channel, StreamReconnect,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@",
                                           "unix:///tmp/atbus-"),
                         stream_name);

TEST_P(StreamReconnect, ReconnectsAndQueuedMessagesArrive) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  ASSERT_TRUE(out.send(as_bytes("first")));
  EXPECT_EQ(collect(inbox, 1, &out), std::vector<std::string>{"first"});
  for (std::uint64_t round = 1; round <= 3; ++round) {
    inbox.close();
    ASSERT_TRUE(see_the_loss(out));
    ASSERT_TRUE(out.send(as_bytes("while away")));
    EXPECT_EQ(out.stats().connections, 0U);
    inbox = open_receiver();
    ASSERT_TRUE(out.send(as_bytes("back")));
    EXPECT_EQ(collect(inbox, 2, &out), (std::vector<std::string>{"while away", "back"}));
    EXPECT_EQ(out.stats().reconnects, round);
  }
}

TEST_P(StreamReconnect, ReconnectsToAReceiverThatComesLater) {
  open_receiver().close();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 2ms});
  ASSERT_TRUE(out.send(as_bytes("patient")));
  EXPECT_EQ(out.flush(20ms), errc::would_block);
  auto inbox = open_receiver();
  EXPECT_EQ(collect(inbox, 1, &out), std::vector<std::string>{"patient"});
  EXPECT_EQ(out.stats().reconnects, 0U);
}

TEST_P(StreamReconnect, HalfWrittenMessageArrivesWholeAfterAReconnect) {
  constexpr std::size_t size = std::size_t{1} << 20;
  auto inbox = open_receiver(narrow_receiver({.message_limit = size}));
  sender_options options =
      narrow({.message_limit = size, .reconnect_min = 1ms, .reconnect_max = 10ms});
  options.send_buffer_size = 0;  // what the limit needs
  auto out = open_sender(options);
  ASSERT_TRUE(out.send(as_bytes(numbered(size, 1))));
  ASSERT_EQ(out.flush(), errc::would_block) << "it has to be too large for the kernel";
  inbox.close();
  ASSERT_TRUE(see_the_loss(out));
  ASSERT_TRUE(out.send(as_bytes(numbered(100, 2))));
  inbox = open_receiver({.message_limit = size});
  const auto got = collect(inbox, 2, &out);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(number_of(got[0]), 1U);
  EXPECT_EQ(number_of(got[1]), 2U);
}

TEST_P(StreamReconnect, EndsIfTheNextReceiverTakesNoMessageAsLongAsOneQueued) {
  constexpr std::size_t size = std::size_t{1} << 20;
  auto inbox = open_receiver(narrow_receiver({.message_limit = size}));
  sender_options options =
      narrow({.message_limit = size, .reconnect_min = 1ms, .reconnect_max = 10ms});
  options.send_buffer_size = 0;  // what the limit needs
  auto out = open_sender(options);
  ASSERT_TRUE(out.send(as_bytes(numbered(size, 1))));
  ASSERT_EQ(out.flush(), errc::would_block) << "it has to be too large for the kernel";
  inbox.close();
  ASSERT_TRUE(see_the_loss(out));
  inbox = open_receiver({.message_limit = 1000});
  status last;
  std::vector<std::string> texts;
  EXPECT_TRUE(repeat_until([&] { return last == errc::message_too_large; },
                           [&] {
                             last = out.flush();
                             take(inbox, texts);
                           }))
      << last.text();
  EXPECT_TRUE(texts.empty());
  EXPECT_EQ(*out.take_back([&](bytes_view m, errc) { EXPECT_EQ(number_of(as_text(m)), 1U); }), 1U);
}

TEST(StreamSenderUnix, ReconnectsAreSpreadOverAQuarterEachWay) {
  const std::string nobody = "unix://@nobody-" + std::to_string(getpid());
  auto least = std::chrono::nanoseconds::max();
  auto most = std::chrono::nanoseconds::min();
  const auto start = now();
  for (int i = 0; i < 200; ++i) {
    auto out = sender::open(nobody, {.reconnect_min = 1h, .reconnect_max = 1h});
    ASSERT_TRUE(out) << out.error().text();
    least = std::min(least, out->longest_sleep());
    most = std::max(most, out->longest_sleep());
  }
  EXPECT_GE(least, 45min - (now() - start));
  EXPECT_LE(most, 75min);
  // By chance all on one side: once in 2^190 runs.
  EXPECT_LT(least, 50min);
  EXPECT_GT(most, 70min);
}

TEST(StreamSenderUnix, TimeBetweenAttemptsDoublesUpToItsMaximum) {
  const std::string nobody = "unix://@nobody-" + std::to_string(getpid());
  auto out = sender::open(nobody, {.reconnect_min = 1ms, .reconnect_max = 64ms});
  ASSERT_TRUE(out) << out.error().text();
  auto most = 0ns;
  EXPECT_TRUE(repeat_until([&] { return most > 64ms; },
                           [&] {
                             most = std::max(most, out->longest_sleep());
                             out->finish_sleep();
                           }))
      << most.count() << " ns";
  EXPECT_LE(most, 80ms);
}

TEST(StreamSenderUnix, ListenerThatTurnsEverybodyAwayIsNotDialledFasterAndFaster) {
  const test::plain_listener listener{"unix://@away-" + std::to_string(getpid())};
  auto out = sender::open(listener.address(), {.reconnect_min = 1ms, .reconnect_max = 1h});
  ASSERT_TRUE(out) << out.error().text();
  int attempts = 0;
  while (out->longest_sleep() < 40ms) {
    listener.accept().close();
    ++attempts;
    ASSERT_TRUE(repeat_until([&] { return !out->receiver_alive(); }, [&] { out->finish_sleep(); }));
    while (out->longest_sleep() < 40ms && !out->receiver_alive())
      out->finish_sleep();
    ASSERT_LT(attempts, 20);
  }
}

TEST(StreamSenderUnix, EndsALinkOverWhichMessagesCome) {
  const test::plain_listener listener{"unix://@talks-" + std::to_string(getpid())};
  auto out = sender::open(listener.address(), {.reconnect_min = 1h, .reconnect_max = 1h});
  ASSERT_TRUE(out) << out.error().text();
  test::plain_socket peer = listener.accept();
  const auto turn = [&] { out->finish_sleep(); };
  EXPECT_TRUE(peer.send(as_text(detail::opened_stream(false))));
  ASSERT_TRUE(repeat_until([&] { return out->receiver_alive(); }, turn));
  EXPECT_TRUE(peer.send(as_text(detail::data_frame(as_bytes("not for a sender"), true))));
  EXPECT_TRUE(repeat_until([&] { return !out->receiver_alive(); }, turn));
}

TEST(StreamSenderUnix, EndsALinkOverWhichASwitchComes) {
  const test::plain_listener listener{"unix://@switches-" + std::to_string(getpid())};
  auto out = sender::open(listener.address());
  ASSERT_TRUE(out) << out.error().text();
  test::plain_socket peer = listener.accept();
  EXPECT_TRUE(peer.send(as_text(detail::opened_stream(false))));
  EXPECT_TRUE(peer.send(as_text(detail::switch_frame(false))));
  EXPECT_TRUE(repeat_until([&] { return !out->receiver_alive(); }, [&] { out->finish_sleep(); }));
  EXPECT_EQ(out->send(as_bytes("late")), errc::protocol_error);
}

TEST_P(StreamReconnect, MessagesNotSentAreTakenBackAfterTheEnd) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow());
  std::uint64_t accepted = 0;
  while (out.send(as_bytes(numbered(1000, accepted + 1))))
    ++accepted;
  inbox.close();
  EXPECT_EQ(out.flush(patience), errc::peer_closed);
  EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
  std::vector<std::uint64_t> back;
  const auto count = out.take_back([&](bytes_view m, errc why) {
    EXPECT_EQ(why, errc::not_delivered);
    back.push_back(number_of(as_text(m)));
  });
  ASSERT_TRUE(count) << count.error().text();
  ASSERT_EQ(*count, back.size());
  ASSERT_FALSE(back.empty());
  EXPECT_EQ(back.back(), accepted);
  for (std::size_t i = 1; i < back.size(); ++i)
    EXPECT_EQ(back[i], back[i - 1] + 1);
  EXPECT_EQ(*out.take_back([](bytes_view, errc) { FAIL(); }), 0U);
}

TEST_P(StreamReconnect, TakingBackAloneNoticesTheEnd) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow());
  while (out.send(as_bytes(numbered(1000, 1)))) {
  }
  inbox.close();
  std::size_t back = 0;
  EXPECT_TRUE(repeat_until(
      [&] { return static_cast<bool>(out.take_back([&](bytes_view, errc) { ++back; })); }, [] {}));
  EXPECT_GT(back, 0U);
}

TEST_P(StreamReconnect, AskingForAReceiverAloneNoticesTheEnd) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("first")));
  ASSERT_EQ(collect(inbox, 1, &out).size(), 1U);
  EXPECT_TRUE(out.receiver_alive());
  inbox.close();
  EXPECT_TRUE(repeat_until([&] { return !out.receiver_alive(); }, [] {}));
}

TEST(StreamSenderUnix, SeesAnEndBehindAHelloThatItHasNotRead) {
  const test::plain_listener listener{"unix://@hello-" + std::to_string(getpid())};
  auto out = sender::open(listener.address() + "?shm=false");
  ASSERT_TRUE(out) << out.error().text();
  test::plain_socket peer = listener.accept();
  ASSERT_EQ(peer.receive(detail::frame_size(detail::hello_size)).size(),
            detail::frame_size(detail::hello_size));
  EXPECT_TRUE(out->receiver_alive());
  EXPECT_TRUE(peer.send(as_text(detail::opened_stream(false))));
  peer.close();
  EXPECT_FALSE(out->receiver_alive());
}

}  // namespace
}  // namespace atbus
