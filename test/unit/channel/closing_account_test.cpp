// Random ends of channels over TCP, with and without TLS, while the receiver lives: each accepted message is
// delivered or reported, once and in order.
#include <sys/socket.h>

#include <numeric>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "dice.h"
#include "from_environment.h"
#include "numbered_message.h"
#include "system/kernel.h"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

using test::dice;

// How much the kernel takes of what is sent, at random.
struct sparing_kernel {
  std::size_t take(std::size_t size) {
    if (left == 0 || random->one_in(3))
      return 0;
    const std::size_t taken = std::min({size, left, std::size_t{1} + random->below(40'000)});
    left -= taken;
    return taken;
  }
  dice* random = nullptr;
  std::size_t left = 0;  // bytes
} sparing;

ssize_t sparing_send(int fd, const void* data, std::size_t size, int flags) {
  const std::size_t taken = sparing.take(size);
  if (taken != 0)
    return ::send(fd, data, taken, flags);
  errno = EAGAIN;
  return -1;
}

ssize_t sparing_sendmsg(int fd, const msghdr* message, int flags) {
  const auto& first = message->msg_iov[0];
  return sparing_send(fd, first.iov_base, first.iov_len, flags);
}

// What became of the messages 1, 2, 3 ... of one channel.
class message_account {
 public:
  std::vector<std::byte> next(std::size_t size) {
    std::vector<std::byte> made(std::max(size, test::smallest_message));
    test::write_message(made, 1, accepted_ + 1);
    return made;
  }
  void accept() { ++accepted_; }
  [[nodiscard]] std::uint64_t accepted() const { return accepted_; }
  void flushed() { flushed_ = accepted_; }
  void deliver(bytes_view message) { note(message, delivered_); }
  void report(bytes_view message) { note(message, reported_); }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_.size(); }
  // All behind the first `released` have been delivered at last, in order.
  void expect_resent(std::uint64_t released, std::uint64_t round) const {
    std::vector<std::uint64_t> expected(accepted_ - released);
    std::iota(expected.begin(), expected.end(), released + 1);
    ASSERT_GE(delivered_.size(), expected.size()) << "round " << round;
    EXPECT_TRUE(std::equal(expected.rbegin(), expected.rend(), delivered_.rbegin()))
        << "round " << round;
  }

  void expect_exact(std::uint64_t round) const {
    std::vector<std::uint64_t> all = delivered_;
    all.insert(all.end(), reported_.begin(), reported_.end());
    std::vector<std::uint64_t> expected(accepted_);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(all, expected) << "round " << round << ": " << delivered_.size() << " delivered, "
                             << reported_.size() << " reported, " << accepted_ << " accepted";
    EXPECT_GE(delivered_.size(), flushed_) << "round " << round;
  }

 private:
  static void note(bytes_view message, std::vector<std::uint64_t>& numbers) {
    test::message_stamp stamp;
    EXPECT_TRUE(test::read_message(message, stamp));
    numbers.push_back(stamp.number);
  }

  std::uint64_t accepted_ = 0;
  std::uint64_t flushed_ = 0;  // what flush has called written
  std::vector<std::uint64_t> delivered_;
  std::vector<std::uint64_t> reported_;
};

// The parameter: whether it is encrypted.
class ClosingAccount : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t message_limit = 32 * 1024;

  ~ClosingAccount() override { detail::kernel() = saved_; }

  socket_options sockets() { return {.tls = GetParam() ? credentials : tls_credentials{}}; }
  void be_sparing(std::size_t bytes) {
    sparing = {&random, bytes};
    detail::kernel().send = sparing_send;
    detail::kernel().sendmsg = sparing_sendmsg;
  }
  std::size_t some_bytes() {
    constexpr std::size_t sizes[] = {100, 10'000, 100'000, 400'000};
    return random.below(random.of(sizes));
  }
  void be_generous() { detail::kernel() = saved_; }
  std::uint64_t queue_size() {
    constexpr std::uint64_t sizes[] = {1, 256 << 10, 1 << 20};
    return random.of(sizes);
  }
  void choose_sizes() {
    constexpr std::size_t sizes[] = {100, 1'000, 8'000, 32'000};
    largest_ = random.of(sizes);
  }
  // Sends some messages, or as many as there is room for.
  template <class Out>
  void send_some(Out& out) {
    for (std::uint64_t left = random.one_in(8) ? 10'000 : random.below(60); left != 0; --left) {
      if (!out.send(account.next(random.below(largest_))))
        return;
      account.accept();
    }
  }
  template <class Out>
  void flush_some(Out& out) {
    if (random.one_in(2) && out.flush())
      account.flushed();
  }
  std::chrono::nanoseconds some_linger() {
    return random.one_in(2) ? 0ns : random.time(random.one_in(20) ? 20ms : 1ms);
  }
  poll_limits few_messages() { return {.messages = 1 + random.below(50)}; }

  const std::uint64_t rounds = test::from_environment("ATBUS_CLOSING_ROUNDS", 100);
  const tls_credentials credentials =
      *tls_credentials::from_token("a secret of the test, long enough");
  dice random{test::from_environment("ATBUS_SEED", 1)};
  message_account account;

 private:
  std::size_t largest_ = 0;
  const detail::kernel_calls saved_ = detail::kernel();
};

TEST_P(ClosingAccount, OfASenderIsExact) {
  for (std::uint64_t round = 0; round != rounds && !HasFailure(); ++round) {
    account = {};
    choose_sizes();
    auto in = receiver::open("ipv4://127.0.0.1:0",
                             {.message_limit = message_limit, .spin = 0ns, .socket = sockets()});
    ASSERT_TRUE(in) << in.error().text();
    auto out = sender::open(in->address(), {.socket = sockets(),
                                            .message_limit = message_limit,
                                            .buffer = send_buffer_kind::growing,
                                            .send_buffer_size = queue_size(),
                                            .connect_timeout = 0ns});
    ASSERT_TRUE(out) << out.error().text();
    const auto read = [&](const poll_limits& most) {
      in->poll([&](bytes_view m) { account.deliver(m); }, most);
    };
    ASSERT_TRUE(out->send(account.next(10)));
    account.accept();
    for (const auto end = now() + 30s; account.delivered() == 0 && now() < end;) {
      (void)out->flush();
      read({});
    }
    (void)out->flush();
    be_sparing(some_bytes());
    for (std::uint64_t turns = random.below(6); turns != 0; --turns) {
      send_some(*out);
      flush_some(*out);
      if (random.one_in(2))
        read(few_messages());
    }
    out->close(some_linger(), [&](bytes_view m) { account.report(m); });
    be_generous();
    for (const auto end = now() + 30s; in->stats().connections != 0 && now() < end;) {
      read(few_messages());
      (void)in->wait(1ms);
    }
    account.expect_exact(round);
  }
}

TEST_P(ClosingAccount, OfAConnectionIsExact) {
  recorded_set a;
  recorded_set b;
  a.on_message = [&](connection, bytes_view m) { account.deliver(m); };
  b.on_close = [&](connection c, const error&) {
    c.unsent([&](bytes_view m) { account.report(m); });
  };
  for (std::uint64_t round = 0; round != rounds && !HasFailure(); ++round) {
    account = {};
    choose_sizes();
    a.opens = a.closes = b.opens = b.closes = 0;
    const std::string where =
        a.listen("ipv4://127.0.0.1:0",
                 {.connection = {.socket = sockets(), .message_limit = message_limit}});
    connection out = b.connect(where, {.connection = {.socket = sockets(),
                                                      .message_limit = message_limit,
                                                      .send_buffer_size = queue_size()}});
    ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.opens == 1 && b.opens == 1; }));
    EXPECT_TRUE(a.set->close_listener(where));
    be_sparing(some_bytes());
    for (std::uint64_t turns = random.below(6); turns != 0; --turns) {
      send_some(out);
      flush_some(out);
      if (random.one_in(2))
        a.set->poll(few_messages());
      if (random.one_in(2))
        b.set->poll();
    }
    EXPECT_TRUE(random.one_in(4) ? out.abort() : out.close(some_linger()));
    const bool reads_on = random.one_in(2);
    for (const auto end = now() + 30s; b.closes == 0 && now() < end;) {
      b.set->poll();
      if (reads_on)
        a.set->poll(few_messages());
    }
    be_generous();
    ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
    a.messages.clear();
    account.expect_exact(round);
  }
}

// Whole frames alone may be released or sent again, whatever is encrypted, written or neither.
TEST_P(ClosingAccount, OfReleasedMessagesTearsNoFrame) {
  recorded_set a;
  recorded_set b;
  a.on_message = [&](connection, bytes_view m) { account.deliver(m); };
  for (std::uint64_t round = 0; round != rounds / 2 && !HasFailure(); ++round) {
    account = {};
    choose_sizes();
    a.opens = a.closes = b.opens = b.closes = 0;
    const std::string where =
        a.listen("ipv4://127.0.0.1:0",
                 {.connection = {.socket = sockets(), .message_limit = message_limit}});
    connection out = b.connect(where, {.connection = {.socket = sockets(),
                                                      .message_limit = message_limit,
                                                      .send_buffer_size = queue_size(),
                                                      .release = release_policy::by_user}});
    ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.opens == 1 && b.opens == 1; }));
    EXPECT_TRUE(a.set->close_listener(where));
    be_sparing(std::size_t{1} << 40);
    std::uint64_t released = 0;
    for (std::uint64_t turns = 5 + random.below(40); turns != 0; --turns) {
      send_some(out);
      if (random.one_in(2))
        (void)out.flush();
      if (random.one_in(3))
        released += out.release(random.below(random.one_in(4) ? 1'000 : 20));
      if (random.one_in(8)) {
        EXPECT_TRUE(out.resend());
      }
      if (random.one_in(2))
        a.set->poll(few_messages());
      if (random.one_in(2))
        b.set->poll();
    }
    be_generous();
    EXPECT_TRUE(out.resend());
    EXPECT_TRUE(out.close(30s));
    ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.closes == 1 && b.closes == 1; }));
    EXPECT_EQ(b.whys.back(), errc::ok) << b.whys.back().text();
    EXPECT_LE(released, account.accepted());
    account.expect_resent(released, round);
    a.messages.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Tls, ClosingAccount, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "on" : "off"; });

}  // namespace
}  // namespace atbus
