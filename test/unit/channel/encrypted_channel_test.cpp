// Channels and connections over TCP with TLS, and what meets them without.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "atbus/connection.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "plain_socket.h"
#include "socket_address.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::string_view channel_secret = "a secret of the test, long enough";

socket_options encrypted(std::string_view with = channel_secret) {
  return {.tls = *tls_credentials::from_token(with)};
}

class EncryptedChannel : public ::testing::Test {
 protected:
  void open(const socket_options& of_receiver, const std::string& where = "ipv6://[::1]:0") {
    auto opened = receiver::open(where, {.spin = 0ns, .socket = of_receiver});
    ASSERT_TRUE(opened) << opened.error().text();
    in_.emplace(std::move(*opened));
    in_->on_problem([this](const error& what) { problems_.push_back(what.text()); });
  }
  // Dials while the receiver polls.
  result<sender> dial(const socket_options& of_sender, const std::string& option = {}) {
    return sender::open(in_->address() + option,
                        {.socket = of_sender, .connect_timeout = 0ns, .linger = 0ns});
  }
  void until(const std::function<bool()>& done, sender* out = nullptr) {
    bool is_done = false;  // asked once, because it may send
    for (const auto end = now() + 10s; !(is_done = done()) && now() < end;) {
      in_->poll([this](bytes_view message) { received_.emplace_back(as_text(message)); });
      if (out != nullptr)
        (void)out->flush();
    }
    EXPECT_TRUE(is_done);
  }

  std::optional<receiver> in_;
  std::vector<std::string> received_;
  std::vector<std::string> problems_;
};

TEST_F(EncryptedChannel, CarriesMessagesOfEachLengthInOrder) {
  open(encrypted());
  auto out = dial(encrypted());
  ASSERT_TRUE(out) << out.error().text();
  std::vector<std::string> sent;
  for (const std::size_t length : {0U, 1U, 7U, 4000U, 16376U, 16384U, 16385U, 65536U}) {
    for (int i = 0; i != 50; ++i) {
      sent.emplace_back(length, static_cast<char>('a' + sent.size() % 26));
      until([&] { return static_cast<bool>(out->send(as_bytes(sent.back()))); }, &*out);
    }
  }
  until([&] { return received_.size() == sent.size(); }, &*out);
  EXPECT_EQ(received_, sent);
  EXPECT_TRUE(problems_.empty()) << problems_.front();
}

TEST_F(EncryptedChannel, RefusesAnotherSecret) {
  open(encrypted());
  auto out = dial(encrypted("another secret, as long as the one"));
  ASSERT_TRUE(out);
  (void)out->send(as_bytes("never"));
  until([&] { return !out->receiver_alive(); }, &*out);
  EXPECT_TRUE(received_.empty());
  EXPECT_FALSE(out->send(as_bytes("x")));
}

TEST_F(EncryptedChannel, TakesReplacedCredentialsForNewConnections) {
  const socket_options own = encrypted();
  open(own);
  auto before = dial(encrypted());
  ASSERT_TRUE(before) << before.error().text();
  until([&] { return bool{before->send(as_bytes("one"))}; }, &*before);
  until([&] { return received_.size() == 1; }, &*before);
  constexpr std::string_view fresh = "another secret, that comes after it";
  EXPECT_TRUE(own.tls.replace(*tls_credentials::from_token(fresh)));
  auto after = dial(encrypted(fresh));
  ASSERT_TRUE(after) << after.error().text();
  until([&] { return bool{after->send(as_bytes("two"))}; }, &*after);
  until([&] { return received_.size() == 2; }, &*after);
  EXPECT_TRUE(before->send(as_bytes("three")));
  until([&] { return received_.size() == 3; }, &*before);
  auto late = dial(encrypted());
  ASSERT_TRUE(late);
  until([&] { return !problems_.empty(); }, &*late);
  EXPECT_EQ(tls_credentials{}.replace(own.tls), errc::invalid_argument);
  EXPECT_EQ(own.tls.replace({}), errc::invalid_argument);
}

TEST_F(EncryptedChannel, RefusesASenderWithoutTls) {
  open(encrypted());
  auto out = dial({});
  ASSERT_TRUE(out);
  (void)out->send(as_bytes("never"));
  until([&] { return !out->receiver_alive(); }, &*out);
  EXPECT_TRUE(received_.empty());
}

TEST_F(EncryptedChannel, RefusesAReceiverWithoutTls) {
  open({});
  auto out = dial(encrypted());
  ASSERT_TRUE(out);
  (void)out->send(as_bytes("never"));
  until([&] { return !out->receiver_alive(); }, &*out);
  EXPECT_TRUE(received_.empty());
}

TEST_F(EncryptedChannel, IsTurnedOffByBothAddresses) {
  open(encrypted(), "ipv6://[::1]:0?tls=false");
  EXPECT_TRUE(in_->address().ends_with("?tls=false")) << in_->address();
  auto out = dial(encrypted());
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_TRUE(out->send(as_bytes("plain")));
  until([&] { return received_.size() == 1; }, &*out);
}

TEST_F(EncryptedChannel, NeedsCredentialsForAnAddressThatAsksForIt) {
  const auto in = receiver::open("ipv4://127.0.0.1:0?tls=true");
  EXPECT_EQ(in.error().code(), errc::invalid_argument);
  EXPECT_NE(in.error().text().find("token"), std::string::npos) << in.error().text();
  const auto out = sender::open("ipv4://127.0.0.1:1?tls=true");
  EXPECT_EQ(out.error().code(), errc::invalid_argument);
}

TEST_F(EncryptedChannel, IsNothingForUnixSockets) {
  open(encrypted(), "unix://@encrypted-" + std::to_string(getpid()));
  auto out = dial({});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->send(as_bytes("x")));
  until([&] { return received_.size() == 1; }, &*out);
}

TEST_F(EncryptedChannel, TakesNoSecretThatIsTooShortOrTooLong) {
  for (const std::size_t length : {0U, 1U, 15U, 1025U})
    EXPECT_EQ(tls_credentials::from_token(std::string(length, 'x')).error().code(),
              errc::invalid_argument);
  EXPECT_TRUE(tls_credentials::from_token(std::string(16, 'x')));
  EXPECT_TRUE(tls_credentials::from_token(std::string(1024, 'x')));
}

// A message may be complete in the TLS session while the kernel has nothing to tell of.
TEST_F(EncryptedChannel, NeverSleepsOnAMessageThatHasArrived) {
  auto sockets = encrypted();
  sockets.send_buffer = sockets.receive_buffer = 4 << 20;
  open(sockets, "ipv4://127.0.0.1:0");
  std::size_t got = 0;
  const auto turn = [&](std::size_t most) {
    in_->poll([&](bytes_view) { ++got; }, {.messages = most});
  };
  for (int round = 0; round != 4; ++round) {
    auto busy = dial(sockets);
    ASSERT_TRUE(busy);
    for (int i = 0; i != 20; ++i) {
      (void)busy->flush(1ms);
      (void)in_->wait(0ns);
      turn(100);
    }
    std::vector<sender> newcomers;
    for (int i = 0; i != 16; ++i) {
      newcomers.push_back(*dial(sockets));
      (void)newcomers.back().flush(0ns);
    }
    for (int i = 0; i != 6; ++i) {
      (void)in_->wait(1ms);
      turn(100);
    }
    // All but the last fill the place of one read, 512 KiB with their headers. The last message leaves the kernel
    // with them, and waits in the TLS session. Each newcomer is read once without a message.
    got = 0;
    for (const std::size_t length :
         {1'000U, 65'528U, 65'528U, 65'528U, 65'528U, 65'528U, 65'528U, 65'528U, 64'520U, 100U}) {
      ASSERT_TRUE(busy->send(std::vector<std::byte>(length)));
      (void)busy->flush(0ns);
    }
    for (sender& one : newcomers)
      (void)one.flush(0ns);
    while (got != 10) {
      const auto before = now();
      ASSERT_TRUE(in_->wait(2s)) << got;
      ASSERT_LT(now() - before, 1s) << got;
      turn(1);
      (void)busy->flush(0ns);
    }
  }
}

TEST_F(EncryptedChannel, OpenWaitsUntilTheOtherEndIsProven) {
  open(encrypted());
  std::optional<sender> out;
  std::atomic<bool> is_done{false};
  std::thread dialling{[&] {
    auto opened = sender::open(in_->address(), {.socket = encrypted(), .connect_timeout = 10s});
    if (opened)
      out.emplace(std::move(*opened));
    is_done = true;
  }};
  until([&] { return is_done.load(); });  // its handshake needs this thread
  dialling.join();
  EXPECT_TRUE(out.has_value());
}

// The next address of a name, or the same one again: a host that accepts and stays silent is no receiver.
TEST_F(EncryptedChannel, GivesUpAHandshakeThatIsNotAnswered) {
  const auto any = test::socket_address::parse("ipv4://127.0.0.1:0");
  const test::plain_socket silent{::socket(any.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ASSERT_EQ(::bind(silent.fd(), any.get(), any.size), 0);
  ASSERT_EQ(::listen(silent.fd(), 4), 0);
  auto out = sender::open(
      test::socket_address::bound(silent.fd()).text(),
      {.socket = encrypted(), .connect_timeout = 20ms, .linger = 0ns, .reconnect_min = 1ms});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_TRUE(out->send(as_bytes("waits")));
  std::vector<test::plain_socket> accepted;
  for (const auto end = now() + 10s; accepted.size() != 3 && now() < end;) {
    EXPECT_EQ(out->flush(5ms), errc::would_block);
    pollfd interest{.fd = silent.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&interest, 1, 0) == 1)
      accepted.emplace_back(::accept4(silent.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  EXPECT_EQ(accepted.size(), 3U);
  EXPECT_GE(out->stats().tls_failed, 2U);
  std::size_t unsent = 0;
  out->close(0ns, [&](bytes_view) { ++unsent; });
  EXPECT_EQ(unsent, 1U);
}

// A game loop looks at its sender once a frame, which may be later than the end of an attempt.
TEST_F(EncryptedChannel, ConnectsAProgramThatSeldomLooks) {
  open(encrypted());
  auto out = sender::open(in_->address(), {.socket = encrypted(),
                                           .connect_timeout = 20ms,
                                           .linger = 0ns,
                                           .reconnect_min = 1ms,
                                           .reconnect_max = 1ms});
  ASSERT_TRUE(out) << out.error().text();
  until([&] {
    const auto frame_ends_at = now() + 30ms;
    while (now() < frame_ends_at)
      in_->poll([this](bytes_view message) { received_.emplace_back(as_text(message)); });
    if (out->stats().messages == 0) {
      EXPECT_TRUE(out->send(as_bytes("x")));
    }
    out->poll_writable();
    return !received_.empty();
  });
}

// Both ways, many at once, with everything that a node does with its links.
class EncryptedConnection : public ::testing::Test {
 protected:
  struct side {
    std::optional<connection_set> set;
    std::vector<connection> open;
    std::vector<std::string> received;
    std::vector<std::string> closed;
    connection_handlers handlers() {
      connection_handlers made;
      made.on_open = [this](connection c) { open.push_back(c); };
      made.on_message = [this](connection, bytes_view m) { received.emplace_back(as_text(m)); };
      made.on_close = [this](connection, const error& why) { closed.push_back(why.text()); };
      made.on_problem = [](const error&) {};
      return made;
    }
  };
  void SetUp() override {
    server_.set = *connection_set::open(server_.handlers());
    client_.set = *connection_set::open(client_.handlers());
  }
  std::string listen(const connection_options& options) {
    auto at = server_.set->listen("ipv6://[::1]:0", {.connection = options});
    EXPECT_TRUE(at) << at.error().text();
    return *at;
  }
  void until(const std::function<bool()>& done) {
    bool is_done = false;  // asked once, because it may send
    for (const auto end = now() + 10s; !(is_done = done()) && now() < end;) {
      server_.set->poll();
      client_.set->poll();
    }
    EXPECT_TRUE(is_done);
  }

  side server_;
  side client_;
};

TEST_F(EncryptedConnection, CarriesMessagesBothWaysAndClosesCleanly) {
  const auto at = listen({.socket = encrypted()});
  auto out = client_.set->connect(at, {.connection = {.socket = encrypted()}});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->send(as_bytes("early")));  // before the handshake
  until([&] { return server_.open.size() == 1 && server_.received.size() == 1; });
  for (int i = 0; i != 1000; ++i) {
    const std::string text(static_cast<std::size_t>(i * 37 % 5000), 'x');
    until([&] { return static_cast<bool>(out->send(as_bytes(text))); });
    until([&] { return static_cast<bool>(server_.open[0].send(as_bytes(text))); });
  }
  EXPECT_TRUE(out->close(5s));
  until([&] { return client_.closed.size() == 1 && server_.closed.size() == 1; });
  EXPECT_EQ(server_.received.size(), 1001U);
  EXPECT_EQ(client_.received.size(), 1000U);
  EXPECT_EQ(client_.closed[0], "");
}

TEST_F(EncryptedConnection, KeepsWhatIsNotReleasedOverAReconnect) {
  const auto at = listen({.socket = encrypted()});
  auto out = client_.set->connect(
      at, {.connection = {.socket = encrypted(), .release = release_policy::by_user},
           .reconnect_min = 1ms});
  ASSERT_TRUE(out);
  for (int i = 0; i != 100; ++i)
    EXPECT_TRUE(out->send(as_bytes(std::string(3000, 'x') + std::to_string(i))));
  until([&] { return server_.received.size() == 100; });
  EXPECT_EQ(out->release(60), 60U);
  EXPECT_TRUE(server_.open[0].abort());
  until([&] { return server_.received.size() == 140; });
  EXPECT_EQ(server_.received[100], std::string(3000, 'x') + "60");
  EXPECT_EQ(server_.received.back(), std::string(3000, 'x') + "99");
}

TEST_F(EncryptedConnection, ReleasesAMessageThatIsPartlyWrittenWhenItIsWhole) {
  const auto at = listen({.socket = encrypted()});
  socket_options small = encrypted();
  small.send_buffer = 4096;
  auto out = client_.set->connect(
      at, {.connection = {.socket = small, .release = release_policy::by_user}});
  ASSERT_TRUE(out);
  until([&] { return server_.open.size() == 1; });
  EXPECT_TRUE(server_.open[0].pause());
  std::size_t sent = 0;
  while (out->send(as_bytes(std::string(60'000, 'y') + std::to_string(sent))))
    ++sent;
  for (int i = 0; i != 10; ++i)
    client_.set->poll();
  EXPECT_EQ(out->release(sent), sent);
  EXPECT_TRUE(server_.open[0].resume());
  until([&] { return out->queued() == 0; });
  EXPECT_TRUE(out->send(as_bytes("the last")));
  until([&] { return !server_.received.empty() && server_.received.back() == "the last"; });
  for (std::size_t i = 0; i + 1 < server_.received.size(); ++i)
    EXPECT_EQ(server_.received[i], std::string(60'000, 'y') + std::to_string(i));
}

TEST_F(EncryptedConnection, CountsAHandshakeThatIsNotAnswered) {
  const test::plain_listener silent{"ipv4://127.0.0.1:0"};
  ASSERT_TRUE(client_.set->connect(
      silent.address(), {.connection = {.socket = encrypted(), .confirm_timeout = 20ms}}));
  until([&] { return client_.set->stats().tls_failed == 1; });
}

TEST_F(EncryptedConnection, SendsWhileItIsPaused) {
  const auto at = listen({.socket = encrypted()});
  auto out = client_.set->connect(at, {.connection = {.socket = encrypted()}});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->pause());
  EXPECT_TRUE(out->send(as_bytes("paused")));
  until([&] { return server_.received.size() == 1; });
  EXPECT_TRUE(server_.open[0].send(as_bytes("an answer")));
  for (int i = 0; i != 50; ++i) {
    server_.set->poll();
    client_.set->poll();
  }
  EXPECT_TRUE(client_.received.empty());
  EXPECT_TRUE(out->resume());
  until([&] { return client_.received.size() == 1; });
}

// The end of the TLS session is 24 bytes, for which the socket has no room here.
TEST_F(EncryptedConnection, ClosesCleanlyWithoutRoomForTheEndOfTls) {
  const auto at = listen({.socket = encrypted()});
  auto out = client_.set->connect(at, {.connection = {.socket = encrypted()}});
  ASSERT_TRUE(out);
  until([&] { return client_.open.size() == 1 && server_.open.size() == 1; });
  EXPECT_TRUE(out->send(as_bytes("the last")));
  static auto* const usual = detail::kernel().send;
  detail::kernel().send = [](int fd, const void* bytes, std::size_t size, int flags) {
    if (size != 24)
      return usual(fd, bytes, size, flags);
    errno = EAGAIN;
    return ssize_t{-1};
  };
  const auto begun = now();
  EXPECT_TRUE(out->close(5s));
  until([&] { return client_.closed.size() == 1; });
  detail::kernel().send = usual;
  EXPECT_LT(now() - begun, 2s);
  EXPECT_EQ(client_.closed[0], "");
  EXPECT_EQ(server_.received, std::vector<std::string>{"the last"});
}

TEST_F(EncryptedConnection, SpinsNotWhileItWaitsForTheOtherEnd) {
  // A peer that accepts and never answers.
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof any;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size), 0);
  auto out = client_.set->connect("ipv6://[::1]:" + std::to_string(ntohs(any.sin6_port)),
                                  {.connection = {.socket = encrypted()}});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->send(as_bytes("waits")));
  for (int i = 0; i != 20; ++i) {
    client_.set->poll();
    (void)client_.set->wait(1ms);
  }
  int woken = 0;
  for (int i = 0; i != 20; ++i) {
    client_.set->poll();
    woken += client_.set->wait(5ms) == errc::timed_out ? 0 : 1;
  }
  EXPECT_LE(woken, 2);
  ::close(fd);
}

}  // namespace
}  // namespace atbus
