// A stream's sender: what its verbs notice, flushing, closing, forks.
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

using StreamSender = Stream;
INSTANTIATE_TEST_SUITE_P(Channel, StreamSender,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@",
                                           "unix:///tmp/atbus-"),
                         stream_name);

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

TEST_P(StreamSender, AsksForMoreOverTcpThanOverAUnixSocket) {
  const bool local = address.starts_with("unix");
  auto inbox = open_receiver();
  auto asked = open_sender({.socket = {.send_buffer = local ? 256 * 1024 : 1024 * 1024}});
  auto out = open_sender();
  ASSERT_TRUE(asked.flush(patience) && out.flush(patience));
  EXPECT_NE(out.stats().socket_buffer, 0U);
  EXPECT_EQ(out.stats().socket_buffer, asked.stats().socket_buffer);
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

// Its commit sends nothing once the channel has ended.
TEST_P(StreamSender, OpenSlotOfAGrowingBufferOutlivesItsReceiver) {
  constexpr std::size_t size = 200'000;
  for (const auto reconnect : {0ns, std::chrono::nanoseconds{1h}}) {
    auto inbox = open_receiver({.message_limit = 1 << 20});
    auto out = open_sender({.message_limit = 1 << 20,
                            .buffer = send_buffer_kind::growing,
                            .linger = 0ns,
                            .reconnect_min = reconnect,
                            .reconnect_max = reconnect});
    ASSERT_TRUE(out.send(as_bytes("opening")));
    ASSERT_EQ(collect(inbox, 1, &out).size(), 1U);
    auto slot = out.claim(size);
    ASSERT_TRUE(slot) << slot.why().text();
    inbox.close();
    ASSERT_TRUE(see_the_loss(out));
    (void)out.flush(0ns);
    (void)out.poll_writable();
    std::memset(slot.bytes().data(), 's', size);
    slot.commit();
    std::size_t back = 0;
    const auto taken = out.take_back([&](bytes_view m, errc) { back += m.size(); });
    ASSERT_TRUE(taken) << taken.error().text();
    EXPECT_EQ(back, reconnect == 0ns ? 0 : size);
    const status late = out.send(as_bytes("late"));
    EXPECT_EQ(late.code(), reconnect == 0ns ? errc::peer_closed : errc::ok);
  }
}

// Until the next claim, which is refused, and discards it.
TEST_P(StreamSender, OpenSlotOfAGrowingBufferLastsToTheNextClaim) {
  auto inbox = open_receiver();
  auto out = open_sender({.buffer = send_buffer_kind::growing});
  ASSERT_TRUE(out.send(as_bytes("opening")));
  ASSERT_EQ(collect(inbox, 1, &out).size(), 1U);
  auto slot = out.claim(1000);
  ASSERT_TRUE(slot) << slot.why().text();
  inbox.close();
  ASSERT_TRUE(see_the_loss(out));
  std::memset(slot.bytes().data(), 's', slot.bytes().size());
  EXPECT_EQ(out.claim(10).why(), errc::peer_closed);
  slot.commit();
  EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
  EXPECT_EQ(out.close(0ns, [](bytes_view) {}), 0U);
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
