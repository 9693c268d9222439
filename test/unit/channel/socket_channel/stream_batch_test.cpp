// What a stream's receiver does with many messages that came at once, and with many peers.
#include <stdexcept>

#include "counting_allocator.h"
#include "stream_fixture.h"

namespace atbus {
namespace {

// One write with so many messages in it, which are there when it returns.
class Batch : public Stream {
 protected:
  // Turns the receiver until `done`; messages go to `got`.
  bool turn_until(receiver& inbox, const std::function<bool()>& done) {
    return repeat_until(done, [&] { take(inbox, got); });
  }
  static constexpr int in_batch = 100;
  void send_batch(sender& out) {
    {
      auto batch = out.batch();
      for (int i = 0; i < in_batch; ++i)
        ASSERT_TRUE(batch.send(as_bytes(std::to_string(i))));
    }
    ASSERT_TRUE(out.flush(patience));
  }
  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> texts;
    for (int i = 0; i < in_batch; ++i)
      texts.push_back(std::to_string(i));
    return texts;
  }

  std::vector<std::string> got;
};
INSTANTIATE_TEST_SUITE_P(Channel, Batch, ::testing::Values("ipv6://[::1]:", "unix://@"),
                         stream_name);

TEST_P(Batch, RestIsDeliveredAfterAnException) {
  auto inbox = open_receiver();
  auto out = open_sender();
  send_batch(out);
  int thrown = 0;
  EXPECT_TRUE(repeat_until([&] { return got.size() == in_batch; },
                           [&] {
                             try {
                               if (inbox.poll([&](bytes_view m) {
                                     got.emplace_back(as_text(m));
                                     if (got.size() % 10 == 3)
                                       throw std::runtime_error{"a handler's"};
                                   }) == 0)
                                 (void)inbox.wait(1ms);
                             } catch (const std::runtime_error&) {
                               ++thrown;
                             }
                           }));
  EXPECT_EQ(got, all());
  EXPECT_EQ(thrown, 10);
}

TEST_P(Batch, IsDividedAsPollAsks) {
  auto inbox = open_receiver();
  auto out = open_sender();
  send_batch(out);
  EXPECT_TRUE(repeat_until([&] { return got.size() == in_batch; },
                           [&] {
                             const std::size_t before = got.size();
                             // Also if others want the place it was read to meanwhile.
                             ASSERT_TRUE(inbox.wait(patience));
                             const auto n =
                                 inbox.poll([&](bytes_view m) { got.emplace_back(as_text(m)); },
                                            {.messages = 7});
                             EXPECT_LE(n, 7U);
                             EXPECT_EQ(got.size(), before + n);
                           }));
  EXPECT_EQ(got, all());
}

TEST_P(Batch, IsTheSameForWhoPollsAgainAndAgain) {
  auto inbox = open_receiver();
  auto out = open_sender();
  const auto poll = [&] { inbox.poll([&](bytes_view m) { got.emplace_back(as_text(m)); }); };
  for (int i = 0; i < in_batch; ++i) {
    ASSERT_TRUE(out.send(as_bytes(std::to_string(i))));
    const auto arrived = [&] { return got.size() == static_cast<std::size_t>(i) + 1; };
    ASSERT_TRUE(repeat_until(arrived, poll));
  }
  EXPECT_EQ(got, all());
  // And who sleeps then is woken by what comes, not by what came.
  EXPECT_EQ(inbox.wait(0ms), errc::timed_out);
}

TEST_P(Batch, HandlerMayDestroyTheReceiver) {
  for (const bool destroy : {false, true}) {
    address = fresh_address(GetParam());
    auto inbox = std::make_unique<receiver>(open_receiver());
    auto out = open_sender();
    auto other = open_sender();
    send_batch(out);
    send_batch(other);
    int handled = 0;
    EXPECT_TRUE(repeat_until([&] { return handled == 5; },
                             [&] {
                               (void)inbox->wait(1ms);
                               inbox->poll([&](bytes_view m) {
                                 if (++handled < 5)
                                   return;
                                 destroy ? inbox.reset() : inbox->close();
                                 EXPECT_EQ(as_text(m), "4");
                               });
                             }));
    EXPECT_TRUE(see_the_loss(out));
    EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
  }
}

// --- side by side

// The one always has more than a read takes; the other is heard all the same, and a newcomer is
// accepted.
TEST_P(Batch, BusyPeerDoesNotStarveAnother) {
  receiver_options options;
  options.socket.receive_buffer = 2 << 20;
  auto inbox = open_receiver(options);
  sender_options wide;
  wide.socket.send_buffer = 2 << 20;
  wide.buffer = send_buffer_kind::growing;
  wide.send_buffer_size = 16 << 20;
  wide.linger = 0ns;
  auto busy = open_sender(wide);
  auto quiet = open_sender();
  ASSERT_TRUE(quiet.send(as_bytes("hello")));
  ASSERT_TRUE(turn_until(inbox, [&] { return got.size() == 1; }));
  const std::string flood(1000, 'f');
  std::size_t from_busy = 0;
  bool heard = false;
  bool newcomer_heard = false;
  const auto fill = [&] {
    while (busy.send(as_bytes(flood))) {
    }
  };
  fill();
  while (from_busy == 0) {
    (void)inbox.wait(patience);
    inbox.poll([&](bytes_view) { ++from_busy; }, {.messages = 1});
  }
  ASSERT_TRUE(quiet.send(as_bytes("quiet")));
  auto newcomer = open_sender();
  ASSERT_TRUE(newcomer.send(as_bytes("new")));
  // 64 MiB of the busy one's are more than enough turns; it must never be found idle.
  while (from_busy < 64'000 && !(heard && newcomer_heard)) {
    fill();
    ASSERT_NE(inbox.poll(
                  [&](bytes_view m) {
                    if (m.size() == flood.size())
                      ++from_busy;
                    heard |= as_text(m) == "quiet";
                    newcomer_heard |= as_text(m) == "new";
                  },
                  {.messages = 50}),
              0U);
  }
  EXPECT_TRUE(heard);
  EXPECT_TRUE(newcomer_heard);
}

TEST_P(Batch, ManyPeersKeepTheirOrder) {
  constexpr std::size_t peers = 50;
  constexpr int each = 200;
  auto inbox = open_receiver();
  std::vector<sender> all;
  for (std::size_t i = 0; i < peers; ++i)
    all.push_back(open_sender());
  for (int n = 0; n < each; ++n) {
    for (std::size_t i = 0; i < peers; ++i)
      ASSERT_TRUE(all[i].send(as_bytes(std::to_string(i) + ":" + std::to_string(n))));
  }
  std::map<std::string, int> next;
  std::size_t count = 0;
  EXPECT_TRUE(repeat_until([&] { return count == peers * each; },
                           [&] {
                             if (inbox.poll([&](bytes_view m) {
                                   const std::string text{as_text(m)};
                                   const std::size_t colon = text.find(':');
                                   EXPECT_EQ(std::stoi(text.substr(colon + 1)),
                                             next[text.substr(0, colon)]++);
                                   ++count;
                                 }) == 0)
                               (void)inbox.wait(1ms);
                           }));
}

// --- what they cost

TEST_P(Batch, ReceivingAllocatesNothingPerMessage) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build has no way to count allocations";
  auto inbox = open_receiver();
  auto one = open_sender();
  auto other = open_sender();
  const std::string message(3000, 'm');
  std::size_t count = 0;
  const auto receive = [&](std::size_t wanted) {
    const auto deadline = now() + patience;
    while (count < wanted && now() < deadline) {
      if (inbox.poll([&](bytes_view) { ++count; }) == 0)
        (void)inbox.wait(1ms);
    }
    EXPECT_EQ(count, wanted);
  };
  const auto exchange = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      ASSERT_TRUE(one.send(as_bytes(message)));
      ASSERT_TRUE(other.send(as_bytes(message)));
      ASSERT_TRUE(one.flush(patience));
      ASSERT_TRUE(other.flush(patience));
      receive(count + 2);
    }
  };
  exchange(10);
  const std::uint64_t before = test::allocations();
  exchange(500);
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace atbus
