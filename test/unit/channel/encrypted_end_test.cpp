// Encrypted channels that end while ciphertext waits in the process: the kernel has not taken it, so its
// messages are not written.
#include <sys/socket.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

socket_options narrow_encrypted() {
  return {.send_buffer = 16 * 1024,
          .receive_buffer = 16 * 1024,
          .tls = *tls_credentials::from_token("a secret of the test, long enough")};
}

std::string text_of(std::size_t number, std::size_t length) {
  std::string made = std::to_string(number) + ":";
  made.resize(std::max(made.size(), length), 'x');
  return made;
}

std::vector<std::string> texts(std::size_t count, std::size_t length) {
  std::vector<std::string> all;
  for (std::size_t number = 0; number != count; ++number)
    all.push_back(text_of(number, length));
  return all;
}

int times_asked = 0;  // epoll

// The parameter: bytes of a message.
class EncryptedEnd : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EncryptedEnd, OfASenderReportsWhatHasNotLeft) {
  auto in = receiver::open("ipv6://[::1]:0", {.spin = 0ns, .socket = narrow_encrypted()});
  ASSERT_TRUE(in) << in.error().text();
  auto out = sender::open(in->address(), {.socket = narrow_encrypted(),
                                          .buffer = send_buffer_kind::growing,
                                          .send_buffer_size = 512 * 1024,
                                          .connect_timeout = 0ns});
  ASSERT_TRUE(out) << out.error().text();
  std::vector<std::string> all;
  const auto read = [&] { in->poll([&](bytes_view m) { all.emplace_back(as_text(m)); }); };
  std::size_t accepted = 0;
  const auto send = [&] {
    const bool sent = static_cast<bool>(out->send(as_bytes(text_of(accepted, GetParam()))));
    accepted += sent ? 1 : 0;
    return sent;
  };
  ASSERT_TRUE(send());
  for (const auto end = now() + 30s; all.empty() && now() < end;) {
    (void)out->flush();
    read();
  }
  while (send()) {
  }
  std::vector<std::string> unsent;
  const std::size_t count =
      out->close(200ms, [&](bytes_view m) { unsent.emplace_back(as_text(m)); });
  EXPECT_EQ(count, unsent.size());
  for (const auto end = now() + 30s; in->stats().connections != 0 && now() < end;) {
    read();
    (void)in->wait(1ms);
  }
  EXPECT_GT(unsent.size(), 0U);
  EXPECT_EQ(all.size() + unsent.size(), accepted);
  all.insert(all.end(), unsent.begin(), unsent.end());
  EXPECT_EQ(all, texts(accepted, GetParam()));
}

// The client is `b`.
class EncryptedPair : public ::testing::Test {
 protected:
  ~EncryptedPair() override { detail::kernel() = saved_; }

  void open(std::chrono::nanoseconds linger = 1s,
            release_policy release = release_policy::on_write) {
    const connection_options options{.socket = narrow_encrypted(),
                                     .send_buffer_size = 512 * 1024,
                                     .release = release,
                                     .linger = linger};
    b.on_close = [this](connection c, const error&) {
      c.unsent([this](bytes_view m) { unsent.emplace_back(as_text(m)); });
    };
    const std::string where = a.listen("ipv6://[::1]:0", {.connection = options});
    out = b.connect(where, {.connection = options});
    ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.opens == 1 && b.opens == 1; }));
    in = a.last;
  }
  // Sends until the kernel takes no more and the queue is full.
  void stuff_with(std::size_t length) {
    while (out.send(as_bytes(text_of(accepted, length))))
      ++accepted;
    ASSERT_EQ(out.flush(), errc::would_block);
  }
  void expect_all_known(std::size_t length) {
    ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
    ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
    EXPECT_EQ(a.messages.size() + unsent.size(), accepted);
    auto all = a.messages;
    all.insert(all.end(), unsent.begin(), unsent.end());
    EXPECT_EQ(all, texts(accepted, length));
  }
  // wait() is what is tested: nothing happens meanwhile, and it sleeps until its time is up.
  void expect_sleep(connection_set& set) {
    for (int i = 0; i != 10; ++i) {
      set.poll();
      (void)set.wait(1ms);
    }
    static auto* const usual = saved_.epoll_wait;
    detail::kernel().epoll_wait = [](int epoll, epoll_event* events, int count,
                                     std::int64_t timeout_ns) {
      ++times_asked;
      return usual(epoll, events, count, timeout_ns);
    };
    times_asked = 0;
    EXPECT_EQ(set.wait(300ms), errc::timed_out);
    detail::kernel() = saved_;
    EXPECT_LT(times_asked, 10);
  }

  recorded_set a;
  recorded_set b{{.spin = 0ns}};
  connection in;
  connection out;
  std::size_t accepted = 0;
  std::vector<std::string> unsent;
  const detail::kernel_calls saved_ = detail::kernel();
};

class EncryptedConnectionEnd : public EncryptedPair,
                               public ::testing::WithParamInterface<std::size_t> {};

TEST_P(EncryptedConnectionEnd, ReportsWhatHasNotLeftWithinTheLinger) {
  open();
  stuff_with(GetParam());
  EXPECT_TRUE(out.close(200ms));
  expect_all_known(GetParam());
  EXPECT_GT(unsent.size(), 0U);
}

TEST_P(EncryptedConnectionEnd, IsFlushedOnlyWhenItHasLeft) {
  open();
  std::size_t flushed = 0;
  do {
    flushed = accepted;
    ASSERT_TRUE(out.send(as_bytes(text_of(accepted++, GetParam()))));
  } while (out.flush());
  EXPECT_TRUE(out.abort());
  expect_all_known(GetParam());
  EXPECT_GE(a.messages.size(), flushed);
}

constexpr auto length_name = [](const auto& tested) {
  return std::to_string(tested.param) + "_bytes";
};
INSTANTIATE_TEST_SUITE_P(Length, EncryptedEnd, ::testing::Values(100, 8000), length_name);
INSTANTIATE_TEST_SUITE_P(Length, EncryptedConnectionEnd, ::testing::Values(100, 8000), length_name);

TEST_F(EncryptedPair, SendsAllAgainThoughAPartWasOnlyEncrypted) {
  open(1s, release_policy::by_user);
  for (; accepted != 50; ++accepted)
    ASSERT_TRUE(out.send(as_bytes(text_of(accepted, 1000))));
  detail::kernel().send = [](int fd, const void* bytes, std::size_t size, int flags) -> ssize_t {
    static std::size_t left = 20'000;
    const std::size_t taken = std::min(size, std::exchange(left, 0));
    errno = EAGAIN;
    return taken == 0 ? -1 : ::send(fd, bytes, taken, flags);
  };
  EXPECT_EQ(out.flush(), errc::would_block);
  EXPECT_EQ(out.flush(), errc::would_block);
  detail::kernel() = saved_;
  EXPECT_TRUE(out.resend());
  ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.messages.size() == 100; }));
  const auto once = texts(50, 1000);
  auto twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(a.messages, twice);
}

TEST_F(EncryptedPair, SleepsWhenItIsPausedAndTheOtherEndIsGone) {
  open();
  EXPECT_TRUE(out.pause());
  stuff_with(8000);
  EXPECT_TRUE(in.abort());  // with unread bytes: a reset
  expect_sleep(*b.set);
  EXPECT_EQ(b.closes, 0);
  EXPECT_TRUE(out.resume());
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys[0], errc::peer_closed) << b.whys[0].text();
  EXPECT_GT(unsent.size(), 0U);
}

TEST_F(EncryptedPair, EndsAtOnceWhenTheOtherEndDiesBehindItsGoodbye) {
  open(60s);
  stuff_with(8000);
  EXPECT_TRUE(in.close(60s));
  ASSERT_TRUE(turn_until({&b}, [&] { return out.state() == connection_state::closing; }));
  EXPECT_TRUE(in.abort());
  const auto begun = now();
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_LT(now() - begun, 20s);
  EXPECT_EQ(b.whys[0], errc::peer_closed) << b.whys[0].text();
  EXPECT_GT(unsent.size(), 0U);
}

}  // namespace
}  // namespace atbus
