// A stream's receiver: which connections it accepts, which it ends, and what becomes of the others.
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <ctime>

#include "plain_socket.h"
#include "sanitizer.h"
#include "stream_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using detail::byte_string;
using detail::hello;
using test::plain_socket;

class StreamReceiver : public Stream {
 protected:
  ~StreamReceiver() override { detail::kernel() = saved_; }

  [[nodiscard]] plain_socket dial() const {
    return plain_socket::connect(address.substr(0, address.find("?")));
  }
  // Turns the receiver until `done`; messages go to `got`.
  bool turn_until(receiver& inbox, const std::function<bool()>& done) {
    return repeat_until(done, [&] { take(inbox, got); });
  }
  // Whether the other end closes the connection, without a word before.
  bool is_turned_away(receiver& inbox, plain_socket& peer) {
    std::string told;
    const bool ended = turn_until(inbox, [&] {
      told += peer.receive_some(100, 0ns);
      return !peer.ended().empty() && peer.ended() != "silence";
    });
    EXPECT_EQ(told.size(), 0U) << "an unproven peer is told nothing";
    return ended;
  }
  static byte_string opening(std::uint16_t version_min = 1, std::uint16_t version_max = 1) {
    byte_string bytes;
    hello said{.wants_checksums = true, .session = 77};
    said.version_min = version_min;
    said.version_max = version_max;
    detail::append(bytes, detail::hello_frame(said));
    return bytes;
  }

  std::vector<std::string> got;
  detail::kernel_calls saved_ = detail::kernel();
};

INSTANTIATE_TEST_SUITE_P(Channel, StreamReceiver,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@"),
                         stream_name);

// --- who may come

TEST_P(StreamReceiver, ClosesWhoSaysNothingAfterTheConfirmTimeout) {
  auto inbox = open_receiver({.confirm_timeout = 30ms});
  auto honest = open_sender();
  ASSERT_TRUE(honest.send(as_bytes("1")));
  ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
  const auto start = now();
  plain_socket silent = dial();
  plain_socket slow = dial();
  ASSERT_TRUE(slow.send(as_string(opening()).substr(0, 39)));
  EXPECT_TRUE(is_turned_away(inbox, silent));
  EXPECT_TRUE(is_turned_away(inbox, slow));
  EXPECT_GE(now() - start, 30ms);
  EXPECT_EQ(inbox.stats().unconfirmed_dropped, 2U);
  EXPECT_EQ(inbox.stats().connections, 1U);
  ASSERT_TRUE(honest.send(as_bytes("2")));
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 2; }));
}

TEST_P(StreamReceiver, WaitIsNotLongerThanTheConfirmTimeoutAllows) {
  auto inbox = open_receiver({.spin = 0ns, .confirm_timeout = 30ms});
  plain_socket silent = dial();
  std::thread waiter{[&] { (void)inbox.wait(10s); }};
  // Closed by whoever waits for messages.
  EXPECT_EQ(silent.receive_all(), "");
  EXPECT_NE(silent.ended(), "silence");
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("the wait is over")));
  waiter.join();
}

TEST_P(StreamReceiver, ClosesTheOldestOfTooManyWhoSayNothing) {
  auto inbox = open_receiver({.unconfirmed = 3});
  std::vector<plain_socket> peers;
  for (std::uint64_t i = 0; i < 5; ++i) {
    peers.push_back(dial());
    ASSERT_TRUE(turn_until(inbox, [&] {
      return inbox.stats().connections + inbox.stats().unconfirmed_dropped == i + 1;
    }));
  }
  EXPECT_EQ(inbox.stats().unconfirmed_dropped, 2U);
  EXPECT_TRUE(is_turned_away(inbox, peers[0]));
  EXPECT_TRUE(is_turned_away(inbox, peers[1]));
  for (std::size_t i = 2; i < 5; ++i) {
    ASSERT_TRUE(peers[i].send(as_string(opening())));
    std::string answer;
    EXPECT_TRUE(turn_until(inbox, [&] {
      answer += peers[i].receive_some(100, 0ns);
      return answer.size() == detail::frame_size(detail::hello_size);
    })) << i;
  }
}

// They came together, and each has said who it is: nobody has to go.
TEST_P(StreamReceiver, HearsNewcomersBeforeItClosesAny) {
  constexpr std::size_t count = 20;
  auto inbox = open_receiver({.unconfirmed = 1});
  std::vector<sender> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(open_sender());
    ASSERT_TRUE(all.back().send(as_bytes(std::to_string(i))));
  }
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == count; }));
  EXPECT_EQ(inbox.stats().connections, count);
  EXPECT_EQ(inbox.stats().unconfirmed_dropped, 0U);
}

TEST_P(StreamReceiver, LetsHonestPeersThroughBesideAThousandSilentOnes) {
  auto inbox = open_receiver({.backlog = 1024, .unconfirmed = 100});
  std::vector<plain_socket> silent;
  std::vector<sender> honest;
  for (int i = 0; i < 1000; ++i) {
    silent.push_back(dial());
    if (i % 100 == 50) {
      honest.push_back(open_sender());
      ASSERT_TRUE(honest.back().send(as_bytes("honest")));
    }
    if (i % 64 == 63)
      take(inbox, got);
  }
  for (sender& one : honest)
    ASSERT_TRUE(one.send(as_bytes("still here")));
  EXPECT_TRUE(turn_until(inbox, [&] {
    const auto seen = inbox.stats();
    return got.size() == 2 * honest.size() &&
           seen.connections + seen.unconfirmed_dropped == silent.size() + honest.size();
  }));
  EXPECT_LE(inbox.stats().connections, 100 + honest.size());
}

TEST_P(StreamReceiver, AcceptsNoMoreThanItsConnectionsUntilOneLeaves) {
  auto inbox = open_receiver({.connections = 2});
  std::optional<sender> first = open_sender();
  auto second = open_sender();
  ASSERT_TRUE(first->send(as_bytes("first")));
  ASSERT_TRUE(second.send(as_bytes("second")));
  ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 2; }));
  auto third = open_sender();  // the kernel has it
  ASSERT_TRUE(third.send(as_bytes("third")));
  for (int i = 0; i < 20; ++i)
    take(inbox, got);
  EXPECT_EQ(got.size(), 2U);
  EXPECT_EQ(inbox.stats().connections, 2U);
  first.reset();
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 3; }));
  EXPECT_EQ(inbox.stats().connections, 2U);
}

// Also while it sleeps, and nobody else comes.
TEST_P(StreamReceiver, WaitAcceptsWhoWaitedForAPlace) {
  auto inbox = open_receiver({.spin = 0ns, .connections = 1});
  std::optional<sender> first = open_sender();
  ASSERT_TRUE(first->send(as_bytes("first")));
  ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
  auto second = open_sender();
  ASSERT_TRUE(second.send(as_bytes("second")));
  EXPECT_EQ(inbox.wait(5ms), errc::timed_out);
  std::thread leaver{[&] { first.reset(); }};
  EXPECT_TRUE(inbox.wait(patience));
  leaver.join();
  EXPECT_EQ(inbox.poll([](bytes_view) {}), 1U);
}

TEST_P(StreamReceiver, OutOfDescriptorsPausesAcceptingWithoutSpinning) {
  static int tried = 0;
  static bool out_of_them = true;
  static const auto accept = detail::kernel().accept;
  tried = 0;
  out_of_them = true;
  detail::kernel().accept = [](int fd, int flags) {
    ++tried;
    if (!out_of_them)
      return accept(fd, flags);
    errno = EMFILE;
    return -1;
  };
  auto inbox = open_receiver({.spin = 0ns});
  std::vector<std::string> problems;
  inbox.on_problem([&](const error& e) { problems.push_back(e.text()); });
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("patient")));
  const auto start = now();
  EXPECT_EQ(inbox.wait(350ms), errc::timed_out);
  const auto took = now() - start;
  EXPECT_GE(tried, 2);
  EXPECT_LE(tried, took / 100ms + 1) << "at most ten times a second";
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("ulimit"), std::string::npos) << problems[0];
  out_of_them = false;
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
}

TEST_P(StreamReceiver, SaysThatItCanNotWatchAConnectionAndPausesAccepting) {
  static int refused = 0;
  static int watching = -1;
  static const auto control = detail::kernel().epoll_ctl;
  refused = 0;
  detail::kernel().epoll_ctl = [](int epoll, int what, int fd, epoll_event* event) {
    if (epoll != watching || what != EPOLL_CTL_ADD)
      return control(epoll, what, fd, event);
    ++refused;
    errno = ENOSPC;
    return -1;
  };
  auto inbox = open_receiver({.spin = 0ns});
  std::vector<std::string> problems;
  inbox.on_problem([&](const error& e) { problems.push_back(e.text()); });
  watching = inbox.descriptor();
  auto lost = open_sender();
  auto kept = open_sender();
  (void)lost.send(as_bytes("lost"));
  EXPECT_EQ(inbox.wait(50ms), errc::timed_out);
  EXPECT_EQ(refused, 1) << "the other one waits until it is over";
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("fs.epoll.max_user_watches"), std::string::npos) << problems[0];
  watching = -1;
  ASSERT_TRUE(kept.send(as_bytes("kept")));
  EXPECT_TRUE(turn_until(inbox, [&] { return !got.empty(); }));
  EXPECT_EQ(got.back(), "kept");
}

TEST_P(StreamReceiver, GoesOnAfterAConnectionThatEndedBeforeItWasAccepted) {
  static int code = 0;
  static const auto accept = detail::kernel().accept;
  detail::kernel().accept = [](int fd, int flags) {
    if (code == 0)
      return accept(fd, flags);
    errno = std::exchange(code, 0);
    return -1;
  };
  auto inbox = open_receiver();
  for (const int why : {ECONNABORTED, EINTR}) {
    code = why;
    got.clear();
    auto out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("x")));
    EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 1; })) << why;
  }
}

TEST_P(StreamReceiver, KeepsTheSocketOptionsThatWereAskedFor) {
  if (address.starts_with("unix"))
    GTEST_SKIP() << "no such options there";
  static int accepted = -1;
  static const auto accept = detail::kernel().accept;
  detail::kernel().accept = [](int fd, int flags) {
    const int made = accept(fd, flags);
    if (made >= 0)
      accepted = made;
    return made;
  };
  for (const bool keepalive : {false, true}) {
    address = fresh_address(GetParam());
    got.clear();
    receiver_options options;
    options.socket.keepalive = keepalive;
    auto inbox = open_receiver(options);
    auto out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("x")));
    ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
    int value = -1;
    socklen_t length = sizeof value;
    ASSERT_EQ(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    EXPECT_EQ(value != 0, keepalive);
    ASSERT_EQ(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
    EXPECT_NE(value, 0);
  }
}

// --- how peers end

TEST_P(StreamReceiver, SurvivesPeersThatEndInTheMiddle) {
  auto inbox = open_receiver();
  auto honest = open_sender();
  byte_string half = opening();
  detail::append(half, detail::data_frame(as_bytes("whole"), true));
  const std::size_t first_message = half.size();
  detail::append(half, detail::data_frame(as_bytes("never whole"), true));
  half.resize(half.size() - 4);
  std::size_t sent = 0;
  for (std::size_t length :
       {std::size_t{0}, std::size_t{20}, std::size_t{40}, first_message + 4, half.size()}) {
    plain_socket peer = dial();
    ASSERT_TRUE(peer.send(as_string(half).substr(0, length)));
    peer.close();
    ASSERT_TRUE(honest.send(as_bytes("honest")));
    sent += length > first_message ? 2 : 1;
    EXPECT_TRUE(turn_until(inbox, [&] {
      return got.size() == sent && inbox.stats().connections == 1;
    })) << length;
  }
  EXPECT_EQ(std::count(got.begin(), got.end(), "whole"), 2);
  EXPECT_EQ(std::count(got.begin(), got.end(), "never whole"), 0);
  EXPECT_EQ(inbox.stats().quarantined, 0U);
}

TEST_P(StreamReceiver, TellsWhoSpeaksOtherVersionsItsOwn) {
  auto inbox = open_receiver();
  std::vector<error> problems;
  inbox.on_problem([&](const error& e) { problems.push_back(e); });
  plain_socket peer = dial();
  ASSERT_TRUE(peer.send(as_string(opening(7, 9))));
  std::string answer;
  EXPECT_TRUE(turn_until(inbox, [&] {
    answer += peer.receive_some(100, 0ns);
    return !peer.ended().empty() && peer.ended() != "silence";
  }));
  ASSERT_EQ(answer.size(), detail::frame_size(detail::hello_size));
  hello told;
  EXPECT_EQ(detail::read_hello(as_bytes(answer).subspan(detail::frame_header_size), told),
            detail::frame_fault::none);
  EXPECT_EQ(told.version_max, hello{}.version_max);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0], errc::version_mismatch);
  EXPECT_NE(problems[0].text().find("7 to 9"), std::string::npos) << problems[0].text();
  EXPECT_EQ(inbox.stats().quarantined, 1U);
}

TEST_P(StreamReceiver, OfAnotherVersionIsNamedToTheSender) {
  const test::plain_listener listener{address};
  address = listener.address();
  auto out = open_sender();
  plain_socket peer = listener.accept();
  ASSERT_TRUE(peer.send(as_string(opening(7, 9))));
  ASSERT_TRUE(see_the_loss(out));
  const status refused = out.send(as_bytes("late"));
  EXPECT_EQ(refused, errc::version_mismatch);
}

TEST_P(StreamReceiver, GoodbyeEndsTheConnectionAndIsNoFault) {
  auto inbox = open_receiver();
  for (int i = 0; i < 3; ++i) {
    auto out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("x")));
  }
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 3 && inbox.stats().connections == 0; }));
  EXPECT_EQ(inbox.stats().quarantined, 0U);
  EXPECT_EQ(inbox.stats().unconfirmed_dropped, 0U);
}

TEST_P(StreamReceiver, ImpossibleBytesEndTheirConnectionOnly) {
  auto inbox = open_receiver();
  auto honest = open_sender();
  byte_string bytes = opening();
  detail::append(bytes, detail::data_frame(as_bytes("good"), true));
  detail::append(bytes, detail::data_frame(as_bytes("bad"), true));
  bytes[bytes.size() - 8] ^= std::byte{1};
  plain_socket peer = dial();
  ASSERT_TRUE(peer.send(as_string(bytes)));
  ASSERT_TRUE(turn_until(inbox, [&] { return inbox.stats().quarantined == 1; }));
  ASSERT_TRUE(honest.send(as_bytes("honest")));
  EXPECT_TRUE(turn_until(inbox, [&] { return got.size() == 2; }));
  EXPECT_EQ(std::count(got.begin(), got.end(), "good"), 1);
  EXPECT_EQ(inbox.stats().connections, 1U);
}

TEST_P(StreamReceiver, IdleConnectionCostsLessThanEightKilobytes) {
#if defined(ATBUS_TEST_SANITIZER)
  GTEST_SKIP() << "a sanitizer's malloc counts otherwise";
#endif
  constexpr std::size_t count = 1000;
  auto inbox = open_receiver({.backlog = 1024, .unconfirmed = count});
  {
    auto first = open_sender();
    ASSERT_TRUE(first.send(as_bytes("the space for reading is there")));
    ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
  }
  std::vector<plain_socket> peers;
  peers.reserve(count);
  const auto in_use = [] {
    const auto heap = ::mallinfo2();
    return heap.uordblks + heap.hblkhd;
  };
  byte_string bytes = opening();
  detail::append(bytes, detail::data_frame(as_bytes("whole"), true));
  detail::append(bytes, detail::data_frame(as_bytes("half"), true));
  bytes.resize(bytes.size() - 8);  // each keeps something of the reader's
  std::size_t whole = 0;
  const auto before = in_use();
  for (std::size_t i = 0; i < count; ++i) {
    peers.push_back(dial());
    ASSERT_TRUE(peers.back().send(as_string(bytes)));
    inbox.poll([&](bytes_view) { ++whole; });
  }
  EXPECT_TRUE(repeat_until([&] { return whole == count; },
                           [&] {
                             if (inbox.poll([&](bytes_view) { ++whole; }) == 0)
                               (void)inbox.wait(1ms);
                           }));
  EXPECT_LT((in_use() - before) / count, 8192U);
}

}  // namespace
}  // namespace atbus
