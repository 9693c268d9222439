// Unproven peers at a receiver's socket: whatever they send, or don't, ends in a closed and counted
// connection, and an honest sender beside them goes on.
#include <malloc.h>
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "numbered_inbox.h"
#include "plain_socket.h"
#include "scratch_directory.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus::test {
namespace {

std::string text_of(bytes_view bytes) {
  return std::string{as_text(bytes)};
}
std::string hello_bytes() {
  return text_of(detail::opened_stream(true));
}
// Bit 27 (0x08000000): with a checksum.
std::string header(std::uint32_t word, std::uint32_t checksum = 0) {
  std::array<std::byte, 8> bytes{};
  detail::store_little_endian(bytes.data(), word);
  detail::store_little_endian(bytes.data() + 4, checksum);
  return text_of(bytes);
}

class StreamPeer : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::uint32_t honest = 1;

  void open(receiver_options options = {}) {
    const std::string kind = GetParam();
    const std::string at = kind == "ipv4" ? "ipv4://127.0.0.1:0"
                           : kind == "ipv6"
                               ? "ipv6://::1:0"
                               : "unix://@stream-peer-" + std::to_string(getpid()) + "?shm=0";
    auto opened = receiver::open(at, options);
    ASSERT_TRUE(opened) << opened.error().text();
    inbox_ = std::make_unique<numbered_inbox>(std::move(opened).value());
    auto out = sender::open((*inbox_)->address());
    ASSERT_TRUE(out) << out.error().text();
    beside_ = std::make_unique<sender>(std::move(out).value());
    carry_on();
  }
  [[nodiscard]] plain_socket intrude() { return plain_socket::connect((*inbox_)->address()); }

  // The honest one sends and is heard.
  void carry_on(std::uint64_t messages = 50) {
    EXPECT_TRUE(inbox_->carry(*beside_, honest, sent_ + 1, sent_ + messages));
    sent_ += messages;
    EXPECT_TRUE(inbox_->until_number(*beside_, honest, sent_));
    EXPECT_EQ(inbox_->of(honest).size(), sent_);
  }
  // One more message of the honest one, if there is room: a turn of a loop in which things happen.
  void one_more() {
    if (send_number(*beside_, honest, sent_ + 1, numbered_size(sent_ + 1)))
      ++sent_;
    (void)beside_->flush();
  }
  template <class Done>
  [[nodiscard]] bool meanwhile(Done&& done) {
    return inbox_->until(done, [this] { one_more(); });
  }
  // The peer is told nothing but our hello and goodbye, and then the connection ends.
  void expect_closed(plain_socket& unproven) {
    std::string told;
    const bool ended = meanwhile([&] {
      const std::string some = unproven.receive_some(4096, 0ns);
      told += some;
      return some.empty() && unproven.ended() != "silence";
    });
    EXPECT_TRUE(ended) << "still connected";
    EXPECT_LE(told.size(), 64U);
  }
  [[nodiscard]] channel_stats stats() { return (*inbox_)->stats(); }
  void TearDown() override {
    if (inbox_ == nullptr || beside_ == nullptr)
      return;
    carry_on();
    EXPECT_EQ(inbox_->of(honest), numbered_inbox::all_up_to(sent_));
    EXPECT_EQ(inbox_->corrupt(), 0U);
    EXPECT_TRUE((*inbox_)->is_open());
  }

  std::unique_ptr<numbered_inbox> inbox_;
  std::unique_ptr<sender> beside_;
  std::uint64_t sent_ = 0;
};

TEST_P(StreamPeer, OtherProtocolsAreRefusedAndToldNothing) {
  open();
  std::mt19937 random{42};
  std::string noise(10'000, '\0');
  for (char& byte : noise)
    byte = static_cast<char>(random());
  const std::string openings[] = {
      noise,
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
      std::string(100'000, '\0'),
      std::string(100, '\xff'),
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS
      "SSH-2.0-OpenSSH_9.2\r\n",
  };
  std::uint64_t faulty = 0;
  for (const std::string& bytes : openings) {
    SCOPED_TRACE(bytes.substr(0, 10));
    plain_socket unproven = intrude();
    (void)unproven.send(bytes);
    expect_closed(unproven);
    EXPECT_EQ(stats().quarantined, ++faulty);
  }
  EXPECT_EQ(stats().connections, 1U);
}

TEST_P(StreamPeer, BadBytesBehindAGoodHelloEndOnlyThatConnection) {
  open();
  const std::string follow_ups[] = {
      header(0x0fffffff),                                     // longer than anything
      header(0x08000000 | (64 * 1024 + 1)),                   // longer than we take
      header(0x28000000),                                     // a kind that does not exist
      header(0x18000000 | 300),                               // a control frame too long
      header(0x08000005, 1) + std::string("hello\0\0\0", 8),  // a wrong checksum
      header(5) + std::string("hello\0\0\0", 8),              // none, although agreed on
      hello_bytes(),                                          // a second hello
  };
  std::uint64_t faulty = 0;
  for (const std::string& bytes : follow_ups) {
    SCOPED_TRACE(faulty);
    plain_socket unproven = intrude();
    ASSERT_TRUE(unproven.send(hello_bytes()));
    ASSERT_TRUE(unproven.send(bytes));
    expect_closed(unproven);
    EXPECT_EQ(stats().quarantined, ++faulty);
  }
  EXPECT_EQ(stats().connections, 1U);
}

TEST_P(StreamPeer, RandomBytesBehindAGoodHelloNeverArriveAsMessages) {
  open();
  std::mt19937 random{7};
  for (int round = 0; round < 100; ++round) {
    plain_socket unproven = intrude();
    std::string bytes = hello_bytes();
    for (unsigned i = 0; i < 500; ++i)
      bytes += static_cast<char>(random());
    (void)unproven.send(bytes);
    unproven.finish();
    expect_closed(unproven);
  }
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 1; }));
}

TEST_P(StreamPeer, HalfAHelloAndThenSilenceIsClosedWhenItsTimeIsUp) {
  receiver_options options;
  options.confirm_timeout = 200ms;
  open(options);
  plain_socket half = intrude();
  ASSERT_TRUE(half.send(hello_bytes().substr(0, 20)));
  plain_socket silent = intrude();
  expect_closed(half);
  expect_closed(silent);
  EXPECT_EQ(stats().unconfirmed_dropped, 2U);
  EXPECT_EQ(stats().connections, 1U);
}

TEST_P(StreamPeer, AByteNowAndThenDoesNotProlongTheTimeForAHello) {
  receiver_options options;
  options.confirm_timeout = 300ms;
  open(options);
  plain_socket slow = intrude();
  const std::string hello = hello_bytes();
  std::size_t at = 0;
  auto next = std::chrono::steady_clock::now();
  std::string told;
  // All of it would take two seconds.
  EXPECT_TRUE(meanwhile([&] {
    if (at < hello.size() && std::chrono::steady_clock::now() >= next) {
      (void)slow.send(hello.substr(at++, 1));
      next = std::chrono::steady_clock::now() + 50ms;
    }
    told += slow.receive_some(64, 0ns);
    return slow.ended() != "silence" && !slow.ended().empty();
  }));
  EXPECT_LT(at, hello.size());
  EXPECT_EQ(told, "");
  EXPECT_EQ(stats().unconfirmed_dropped, 1U);
}

TEST_P(StreamPeer, SilentConnectionsMakeRoomForOthers) {
  receiver_options options;
  options.unconfirmed = 20;
  open(options);
  std::vector<plain_socket> silent;
  for (int i = 0; i < 500; ++i) {
    silent.push_back(intrude());
    if (i % 50 == 49) {
      EXPECT_TRUE(meanwhile([&] { return stats().unconfirmed_dropped + 20 >= silent.size(); }));
    }
  }
  EXPECT_EQ(stats().unconfirmed_dropped, 480U);
  EXPECT_EQ(stats().connections, 21U);
  // The oldest went; who comes now is let in.
  expect_closed(silent.front());
  auto newcomer = sender::open((*inbox_)->address());
  ASSERT_TRUE(newcomer) << newcomer.error().text();
  EXPECT_TRUE(inbox_->carry(*newcomer, 2, 1, 20));
  EXPECT_TRUE(inbox_->until_number(*newcomer, 2, 20));
}

TEST_P(StreamPeer, WhoComesBeyondTheMostWaitsUntilOthersHaveGone) {
  receiver_options options;
  options.connections = 10;
  open(options);
  std::vector<plain_socket> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(intrude());
    ASSERT_TRUE(clients.back().send(hello_bytes()));
  }
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 10; }));
  carry_on();
  EXPECT_EQ(stats().connections, 10U);
  for (plain_socket& client : clients) {
    // Each is answered in its turn.
    std::string answer;
    EXPECT_TRUE(meanwhile([&] {
      answer += client.receive_some(64, 0ns);
      return answer.size() >= 40;
    }));
    client.close();
  }
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 1; }));
  EXPECT_EQ(stats().quarantined, 0U);
}

TEST_P(StreamPeer, WhoNeverReadsDoesNotHoldUpAnybody) {
  open();
  plain_socket deaf = intrude();
  // As little room for our answers as there can be.
  const int small = 1;
  (void)setsockopt(deaf.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ASSERT_TRUE(deaf.send(hello_bytes()));
  std::vector<std::byte> message(1000);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    write_message(message, 2, number);
    const std::string frame = text_of(detail::data_frame(message, true));
    std::size_t at = 0;
    ASSERT_TRUE(meanwhile([&] {
      const ssize_t n =
          ::send(deaf.fd(), frame.data() + at, frame.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      at += n > 0 ? static_cast<std::size_t>(n) : 0;
      return at == frame.size();
    }));
  }
  EXPECT_TRUE(meanwhile([this] { return inbox_->of(2).size() == 200; }));
  EXPECT_EQ(inbox_->of(2), numbered_inbox::all_up_to(200));
  deaf.close();
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 1; }));
}

// What is not given back to the system does not count as in use.
std::size_t memory_in_use() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST_P(StreamPeer, AnAnnouncedLengthReservesNothing) {
  receiver_options options;
  options.message_limit = 64U << 20U;
  open(options);
  const std::size_t before = memory_in_use();
  std::vector<plain_socket> unproven_peers;
  for (int i = 0; i < 100; ++i) {
    unproven_peers.push_back(intrude());
    ASSERT_TRUE(unproven_peers.back().send(hello_bytes() + header(0x08000000 | (64U << 20U)) +
                                           "a little of it"));
  }
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 101; }));
  carry_on();
  EXPECT_LT(memory_in_use(), before + (8U << 20U));
  unproven_peers.clear();
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 1; }));
}

TEST_P(StreamPeer, ComingAndGoingLeavesNothingBehind) {
  open();
  const std::size_t descriptors = open_descriptors();
  for (int round = 0; round < 300; ++round) {
    plain_socket client = intrude();
    if (round % 3 != 0)
      (void)client.send(hello_bytes().substr(0, round % 3 == 1 ? 40 : 17));
    if (round % 2 == 0) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      (void)setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    client.close();
    carry_on(1);
  }
  EXPECT_TRUE(meanwhile([this] { return stats().connections == 1; }));
  carry_on();
  EXPECT_EQ(open_descriptors(), descriptors);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamPeer, ::testing::Values("ipv4", "ipv6", "unix"),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace atbus::test
