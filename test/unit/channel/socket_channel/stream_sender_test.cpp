// The incarnation of a stream's sender: dialling, losing, dialling again, closing.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "child_process.h"
#include "counting_allocator.h"
#include "numbered_message.h"
#include "plain_socket.h"
#include "stream_bytes.h"
#include "stream_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using StreamSender = Stream;
INSTANTIATE_TEST_SUITE_P(Channel, StreamSender,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@",
                                           "unix:///tmp/atbus-"),
                         stream_name);

std::string numbered(std::size_t size, std::uint64_t number) {
  std::string message(size, '\0');
  test::write_message({reinterpret_cast<std::byte*>(message.data()), size}, 1, number);
  return message;
}
// Its number, or 0 if it is not whole.
std::uint64_t number_of(std::string_view message) {
  test::message_stamp stamp;
  return test::read_message(as_bytes(message), stamp) ? stamp.number : 0;
}

// A listener whose backlog is full. The kernel leaves who dials now without an answer.
class full_listener {
 public:
  explicit full_listener(std::string_view address) : at_(test::socket_address::parse(address)) {
    listening_ = test::plain_socket{::socket(at_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::bind(listening_.fd(), at_.get(), at_.size), 0);
    EXPECT_EQ(::listen(listening_.fd(), 0), 0);
    at_ = test::socket_address::bound(listening_.fd());
    for (int i = 0; i < 8; ++i) {
      dialled_.emplace_back(::socket(at_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(dialled_.back().fd(), at_.get(), at_.size);
    }
  }
  [[nodiscard]] std::string address() const { return at_.text(); }
  // Of a Unix socket: those that are in the backlog leave it.
  void accept_all() const {
    EXPECT_EQ(::fcntl(listening_.fd(), F_SETFL, O_NONBLOCK), 0);
    for (;;) {
      const test::plain_socket one{::accept(listening_.fd(), nullptr, nullptr)};
      if (!one.is_open())
        return;
    }
  }
  [[nodiscard]] test::plain_socket accept() const {
    pollfd interest{.fd = listening_.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&interest, 1, 30'000), 1);
    return test::plain_socket{::accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
  }

 private:
  test::socket_address at_;
  test::plain_socket listening_;
  std::vector<test::plain_socket> dialled_;
};

// --- dialling

TEST_P(StreamSender, ThatDidNotWaitIsToldOfTheRefusalLater) {
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

TEST_P(StreamSender, GivesUpAtTheConnectTimeout) {
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

TEST_P(StreamSender, MessagesOfASenderThatDidNotWaitArrive) {
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

// --- losing the connection

TEST_P(StreamSender, ReconnectsAndQueuedMessagesArrive) {
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

TEST_P(StreamSender, ReconnectsToAReceiverThatComesLater) {
  open_receiver().close();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 2ms});
  ASSERT_TRUE(out.send(as_bytes("patient")));
  EXPECT_EQ(out.flush(20ms), errc::would_block);
  auto inbox = open_receiver();
  EXPECT_EQ(collect(inbox, 1, &out), std::vector<std::string>{"patient"});
  EXPECT_EQ(out.stats().reconnects, 0U);
}

TEST_P(StreamSender, HalfWrittenMessageArrivesWholeAfterAReconnect) {
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

TEST_P(StreamSender, EndsIfTheNextReceiverTakesNoMessageAsLongAsOneQueued) {
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

TEST_P(StreamSender, MessagesNotSentAreTakenBackAfterTheEnd) {
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

TEST_P(StreamSender, TakingBackAloneNoticesTheEnd) {
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

TEST_P(StreamSender, AskingForAReceiverAloneNoticesTheEnd) {
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

// --- nothing but poll_writable

TEST_P(StreamSender, PollingAloneWritesWhatIsQueued) {
  constexpr std::size_t count = 200;
  auto inbox = open_receiver(narrow_receiver());
  sender_options options = narrow();
  options.send_buffer_size = std::uint64_t{32} << 20;
  auto out = open_sender(options);
  for (std::uint64_t i = 1; i <= count; ++i)
    ASSERT_TRUE(out.send(as_bytes(numbered(8000, i))));
  std::vector<std::string> got;
  EXPECT_TRUE(repeat_until([&] { return got.size() == count; },
                           [&] {
                             EXPECT_FALSE(out.poll_writable()) << "nothing was refused";
                             take(inbox, got);
                           }));
}

TEST_P(StreamSender, PollingAloneDialsAgain) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow({.linger = 0ns, .reconnect_min = 1ms, .reconnect_max = 10ms}));
  while (out.send(as_bytes(numbered(1000, 1)))) {
  }
  inbox.close();
  inbox = open_receiver();
  std::vector<std::string> got;
  EXPECT_TRUE(repeat_until([&] { return out.poll_writable(); }, [&] { take(inbox, got); }));
  EXPECT_TRUE(out.send(as_bytes("more")));
}

TEST_P(StreamSender, PollingAloneTellsARefusedSenderOfTheEnd) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow());
  while (out.send(as_bytes(numbered(1000, 1)))) {
  }
  inbox.close();
  EXPECT_TRUE(repeat_until([&] { return out.poll_writable(); }, [] {}));
  EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
}

// --- flushing and closing

TEST_P(StreamSender, FlushWaitsToItsDeadline) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow({.linger = 0ns}));
  while (out.send(as_bytes(numbered(1000, 1)))) {
  }
  const auto start = now();
  EXPECT_EQ(out.flush(30ms), errc::would_block);
  EXPECT_GE(now() - start, 30ms);
  // The kernel's buffers may grow a few times.
  EXPECT_TRUE(repeat_until([&] { return out.wait_writable(30ms) == errc::timed_out; },
                           [&] {
                             while (out.send(as_bytes(numbered(1000, 1)))) {
                             }
                           }));
}

TEST_P(StreamSender, FlushHasNothingToSayOfAnEndBehindWhatWasWritten) {
  for (const auto reconnect : {0ns, std::chrono::nanoseconds{1h}}) {
    auto inbox = open_receiver();
    auto out = open_sender({.reconnect_min = reconnect, .reconnect_max = reconnect});
    ASSERT_TRUE(out.send(as_bytes("written")));
    ASSERT_EQ(collect(inbox, 1, &out).size(), 1U);
    inbox.close();
    ASSERT_TRUE(see_the_loss(out));
    EXPECT_TRUE(out.flush());
    // It has, of what comes later.
    const status late = out.send(as_bytes("late"));
    EXPECT_EQ(late.code(), reconnect == 0ns ? errc::peer_closed : errc::ok);
    EXPECT_EQ(out.flush().code(), reconnect == 0ns ? errc::ok : errc::would_block);
  }
}

TEST_P(StreamSender, BothEndsSayWhatTheKernelGranted) {
  auto inbox = open_receiver({.socket = {.receive_buffer = 128 * 1024}});
  auto out = open_sender({.socket = {.send_buffer = 64 * 1024}});
  ASSERT_TRUE(out.flush(patience));
  EXPECT_EQ(inbox.stats().socket_buffer, 128U * 1024);
  EXPECT_EQ(out.stats().socket_buffer, 64U * 1024);
}

TEST_P(StreamSender, OpenSlotOutlivesFlushAndWait) {
  auto inbox = open_receiver();
  auto out = open_sender();
  auto slot = out.claim(4);
  ASSERT_TRUE(slot);
  EXPECT_TRUE(out.flush(patience));
  EXPECT_TRUE(out.wait_writable(patience, 10));
  std::copy_n(as_bytes("slot").begin(), 4, slot.bytes().begin());
  slot.commit();
  EXPECT_EQ(collect(inbox, 1, &out), std::vector<std::string>{"slot"});
}

// One that is longer than a chunk of the buffer, and many chunks one after the other.
TEST_P(StreamSender, OpenSlotOfAGrowingBufferOutlivesFlush) {
  auto inbox = open_receiver({.message_limit = 1 << 20});
  auto out = open_sender({.message_limit = 1 << 20, .buffer = send_buffer_kind::growing});
  for (const std::size_t size : {std::size_t{200'000}, std::size_t{100}}) {
    for (int round = 0; round != 100; ++round) {
      auto slot = out.claim(size);
      ASSERT_TRUE(slot) << slot.why().text();
      for (int i = 0; i != 3; ++i)
        (void)out.flush(0s);
      const std::string text(size, static_cast<char>('a' + round % 26));
      std::copy_n(as_bytes(text).begin(), size, slot.bytes().begin());
      slot.commit();
      ASSERT_EQ(collect(inbox, 1, &out), std::vector<std::string>{text});
    }
  }
}

TEST_P(StreamSender, EverythingAcceptedBeforeCloseArrives) {
  constexpr std::uint64_t count = 1000;
  auto inbox = open_receiver(narrow_receiver());
  std::uint64_t next = 1;
  {
    sender_options options = narrow({.linger = patience});
    options.send_buffer_size = std::uint64_t{32} << 20;
    auto out = open_sender(options);
    for (std::uint64_t i = 1; i <= count; ++i)
      ASSERT_TRUE(out.send(as_bytes(numbered(8000, i))));
    std::thread reader{[&] {
      (void)repeat_until([&] { return next > count; },
                         [&] {
                           inbox.poll([&](bytes_view m) {
                             EXPECT_EQ(number_of(as_text(m)), next);
                             ++next;
                           });
                           (void)inbox.wait(10ms);
                         });
    }};
    out.close();
    reader.join();
  }
  EXPECT_EQ(next, count + 1);
  EXPECT_TRUE(repeat_until([&] { return inbox.stats().connections == 0; },
                           [&] {
                             inbox.poll([](bytes_view) { FAIL(); });
                             (void)inbox.wait(1ms);
                           }));
  EXPECT_EQ(inbox.stats().quarantined, 0U);
}

TEST_P(StreamSender, CloseHandsOverWhatWasNotWritten) {
  auto inbox = open_receiver();
  auto out = open_sender(narrow({}));
  std::uint64_t next = 0;
  const auto take = [&](bytes_view m) { EXPECT_EQ(as_text(m), std::to_string(next++)); };
  // Its hello is read with the next write. One that came to a socket without a reader would end what
  // the kernel still has to send.
  ASSERT_TRUE(out.send(as_bytes("0")));
  ASSERT_TRUE(repeat_until([&] { return next == 1; },
                           [&] {
                             (void)out.flush(0ns);
                             inbox.poll(take);
                           }));
  std::uint64_t accepted = 1;
  while (out.send(as_bytes(std::to_string(accepted))))
    ++accepted;
  std::vector<std::string> unsent;
  const std::size_t count = out.close(0ns, [&](bytes_view m) { unsent.emplace_back(as_text(m)); });
  EXPECT_FALSE(out.is_open());
  ASSERT_EQ(count, unsent.size());
  ASSERT_GT(count, 0U);
  // What arrives and what was handed over are all of them, each once and in order.
  EXPECT_TRUE(repeat_until([&] { return next + count == accepted; },
                           [&] {
                             inbox.poll(take);
                             (void)inbox.wait(10ms);
                           }));
  for (const std::string& text : unsent)
    EXPECT_EQ(text, std::to_string(next++));
}

TEST_P(StreamSender, CloseGivesUpAfterTheLingerTime) {
  auto inbox = open_receiver(narrow_receiver());
  auto out = open_sender(narrow({.linger = 50ms}));
  while (out.send(as_bytes(numbered(1000, 1)))) {
  }
  const auto start = now();
  out.close();
  EXPECT_GE(now() - start, 50ms);
  EXPECT_LT(now() - start, patience);
}

// --- the rest

TEST_P(StreamSender, IsUnusableInAForkedChildThatKeepsNothingAlive) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("before")));
  int gate[2];
  ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
  test::child_process child{[&] {
    ::close(gate[1]);
    const bool refused = out.send(as_bytes("child")) == errc::used_after_fork &&
                         out.flush(0ns) == errc::used_after_fork && !out.prepare_sleep() &&
                         out.wait_writable(0ns) == errc::used_after_fork &&
                         out.take_back([](bytes_view, errc) {}).error() == errc::used_after_fork;
    out.close();
    char byte = 0;
    (void)!::read(gate[0], &byte, 1);  // lives on
    return refused ? 0 : 1;
  }};
  ::close(gate[0]);
  ASSERT_TRUE(out.send(as_bytes("after")));
  EXPECT_EQ(collect(inbox, 2, &out), (std::vector<std::string>{"before", "after"}));
  out.close();
  std::vector<std::string> more;
  EXPECT_TRUE(
      repeat_until([&] { return inbox.stats().connections == 0; }, [&] { take(inbox, more); }));
  EXPECT_TRUE(more.empty());
  ::close(gate[1]);
  EXPECT_EQ(child.wait_end(), "exit 0");
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

class FixedBuffer : public Stream {};
INSTANTIATE_TEST_SUITE_P(Channel, FixedBuffer, ::testing::Values("ipv6://[::1]:", "unix://@"),
                         stream_name);

TEST_P(FixedBuffer, AllocatesNothingAfterTheFirstMessage) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build has no way to count allocations";
  auto inbox = open_receiver();
  auto out = open_sender();
  std::size_t got = 0;
  const std::string message(500, 'm');
  const auto exchange = [&](std::size_t count) {
    const std::size_t wanted = got + count;
    std::size_t sent = 0;
    const auto deadline = now() + patience;
    while (got < wanted && now() < deadline) {
      for (int i = 0; sent < count && i < 100 && out.send(as_bytes(message)); ++i)
        ++sent;
      (void)out.flush();
      if (inbox.poll([&](bytes_view) { ++got; }) == 0)
        (void)inbox.wait(1ms);
    }
    EXPECT_EQ(got, wanted);
  };
  exchange(1);
  const std::uint64_t before = test::allocations();
  exchange(20'000);
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace atbus
