// Messages arrive whole, in order, once.
#include <stdexcept>

#include "channel_kind.h"

namespace atbus {
namespace {

using Delivery = ChannelTest;
INSTANTIATE_TEST_SUITE_P(Channel, Delivery, ::testing::ValuesIn(channel_kinds), kind_name);

// What only shared memory promises.
class LaneDelivery : public ChannelTest {};
INSTANTIATE_TEST_SUITE_P(Channel, LaneDelivery, ::testing::ValuesIn(lane_kinds), kind_name);

TEST_P(Delivery, SentBytesArriveAsTheyWere) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("one")));
  ASSERT_TRUE(out.send(as_bytes("")));
  ASSERT_TRUE(out.send(as_bytes("three")));
  EXPECT_EQ(drain(inbox), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(inbox.stats().messages, 3U);
  EXPECT_EQ(inbox.stats().bytes, 8U);
}

TEST_P(Delivery, PiecesArriveAsOneMessage) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send({as_bytes("head "), as_bytes(""), as_bytes("body")}));
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"head body"});
}

TEST_P(Delivery, CommittedClaimArrivesAndAbortedOneDoesNot) {
  auto inbox = open_receiver();
  auto out = open_sender();
  {
    auto aborted = out.claim(8);
    ASSERT_TRUE(aborted);
    std::memset(aborted.bytes().data(), 'x', 8);
  }
  auto slot = out.claim(8);
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot.bytes().size(), 8U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.bytes().data()) % 8, 0U);
  std::memcpy(slot.bytes().data(), "claimed!", 8);
  slot.commit();
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"claimed!"});
}

TEST_P(Delivery, CommitMaySendLessThanWasClaimed) {
  auto inbox = open_receiver();
  auto out = open_sender();
  auto slot = out.claim(100);
  ASSERT_TRUE(slot);
  std::memcpy(slot.bytes().data(), "short", 5);
  slot.commit(5);
  ASSERT_TRUE(out.send(as_bytes("next")));
  EXPECT_EQ(drain(inbox), (std::vector<std::string>{"short", "next"}));
}

TEST_P(Delivery, CommitsOfTooMuchAndSecondOnesSendNothing) {
  auto inbox = open_receiver();
  auto out = open_sender();
  auto too_long = out.claim(8);
  ASSERT_TRUE(too_long);
  too_long.commit(9);
  auto twice = out.claim(5);
  ASSERT_TRUE(twice);
  std::memcpy(twice.bytes().data(), "twice", 5);
  twice.commit();
  twice.commit();
  ASSERT_TRUE(out.send(as_bytes("next")));
  EXPECT_EQ(drain(inbox), (std::vector<std::string>{"twice", "next"}));
}

TEST_P(Delivery, ASlotThatWasReplacedSendsNothing) {
  auto inbox = open_receiver();
  auto out = open_sender();
  auto before_a_send = out.claim(5);
  ASSERT_TRUE(before_a_send);
  ASSERT_TRUE(out.send(as_bytes("sent")));
  before_a_send.commit();
  auto before_a_claim = out.claim(10);
  auto last = out.claim(4);
  ASSERT_TRUE(before_a_claim && last);
  std::memcpy(last.bytes().data(), "last", 4);
  before_a_claim.commit();
  last.commit();
  before_a_claim.commit();
  ASSERT_TRUE(out.send(as_bytes("next")));
  EXPECT_EQ(drain(inbox), (std::vector<std::string>{"sent", "last", "next"}));
}

TEST_P(Delivery, ASlotOfAnEarlierLapSendsNothing) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender({.send_buffer_size = 4096});
  const std::string message(500, 'm');
  std::size_t sent = 0;
  std::size_t got = 0;
  for (int i = 0; i != (GetParam().stream ? 4 : 100); ++i) {
    auto old = out.claim(message.size());
    ASSERT_TRUE(old);
    for (int others = 0; others != 8; ++others) {  // then the writer is where it was
      const status how = out.send(as_bytes(message));
      sent += how ? 1 : 0;
      got += drain(inbox).size();
    }
    old.commit();
    got += drain(inbox).size();
  }
  EXPECT_EQ(got, sent);
}

TEST_P(Delivery, AHandlerMayEndThePollThatCalledIt) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("first")));  // then the sender may go on in a lane
  EXPECT_EQ(drain(inbox, out), std::vector<std::string>{"first"});
  std::vector<std::string> expected;
  for (int i = 0; i != 10; ++i) {
    ASSERT_TRUE(out.send(as_bytes(expected.emplace_back(std::to_string(i)))));
  }
  (void)out.flush();
  inbox.end_poll();  // nothing is running
  std::vector<std::string> got;
  std::vector<std::size_t> polls;
  const auto deadline = now() + std::chrono::seconds{20};
  while (got.size() != expected.size() && now() < deadline) {
    const std::size_t told = inbox.poll([&](bytes_view message) {
      got.emplace_back(as_text(message));
      if (got.size() % 4 == 0)
        inbox.end_poll();
    });
    if (told != 0)
      polls.push_back(told);
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(polls, (std::vector<std::size_t>{4, 4, 2}));
}

TEST_P(Delivery, BatchIsInvisibleUntilFlushed) {
  auto inbox = open_receiver();
  auto out = open_sender();
  {
    auto batch = out.batch();
    ASSERT_TRUE(batch.send(as_bytes("a")));
    ASSERT_TRUE(batch.send(as_bytes("b")));
    EXPECT_TRUE(drain(inbox).empty());
    batch.flush();
    EXPECT_EQ(drain(inbox).size(), 2U);
    ASSERT_TRUE(batch.send(as_bytes("c")));
    EXPECT_TRUE(drain(inbox).empty());
  }
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"c"});
}

TEST_P(Delivery, FullLaneIsWouldBlockAndNothingIsLost) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  int accepted = 0;
  status last;
  while ((last = out.send(as_bytes(std::to_string(accepted)))))
    ++accepted;
  EXPECT_EQ(last, errc::would_block);
  EXPECT_GT(accepted, 100);
  EXPECT_EQ(out.stats().full, 1U);
  const auto got = drain(inbox, out);
  ASSERT_EQ(got.size(), static_cast<std::size_t>(accepted));
  for (int i = 0; i < accepted; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)], std::to_string(i));
  EXPECT_TRUE(out.send(as_bytes("room again")));
}

TEST_P(Delivery, LargestMessageFitsAndOneByteMoreIsRefused) {
  auto inbox = open_receiver({.lanes = 2, .message_limit = 5000});
  auto out = open_sender();
  EXPECT_EQ(out.message_limit(), 5000U);
  const std::string largest(5000, 'L');
  for (int i = 0; i < (GetParam().stream ? 100 : 1000); ++i) {  // at every offset of a lane
    ASSERT_TRUE(out.send(as_bytes(largest))) << i;
    ASSERT_EQ(drain(inbox), std::vector<std::string>{largest}) << i;
    ASSERT_TRUE(out.send(as_bytes(std::string(static_cast<std::size_t>(i), 'x'))));
    ASSERT_EQ(drain(inbox).size(), 1U);
  }
  const auto refused = out.send(as_bytes(largest + "!"));
  EXPECT_EQ(refused, errc::message_too_large);
  EXPECT_EQ(refused.fact(0), 5001U);
  EXPECT_EQ(refused.fact(1), 5000U);
  EXPECT_EQ(out.claim(SIZE_MAX).why(), errc::message_too_large);
  EXPECT_EQ(out.claim(SIZE_MAX - 8).why(), errc::message_too_large);
}

TEST_P(Delivery, PiecesWhoseSumOverflowsAreRefused) {
  auto inbox = open_receiver();
  auto out = open_sender();
  const std::byte one{};
  const volatile std::size_t half = SIZE_MAX / 2 + 1;  // the compiler would refuse it too
  const bytes_view pieces[] = {{&one, half}, {&one, half}, {&one, 1}};
  EXPECT_EQ(out.send(std::span<const bytes_view>{pieces}), errc::message_too_large);
  EXPECT_TRUE(drain(inbox).empty());
}

TEST_P(Delivery, RandomLengthsSurviveManyLaps) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 8192, .message_limit = 2000});
  auto out = open_sender();
  std::mt19937 random{20261121};
  std::vector<std::string> sent;
  std::vector<std::string> got;
  for (int i = 0; i < 20000; ++i) {
    std::string message(random() % 2001, static_cast<char>('a' + i % 26));
    const auto s = out.send(as_bytes(message));
    if (s) {
      sent.push_back(std::move(message));
    } else {
      ASSERT_EQ(s, errc::would_block);
      for (auto& m : drain(inbox, out))
        got.push_back(std::move(m));
    }
  }
  for (auto& m : drain(inbox, out))
    got.push_back(std::move(m));
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(GetParam().stream || out.stats().padding_bytes > 0);
}

TEST_P(Delivery, BatchLargerThanTheLaneIsFlushedWhenItIsFull) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = open_sender();
  auto batch = out.batch();
  int sent = 0;
  while (batch.send(as_bytes("0123456789abcdef")))
    ++sent;
  EXPECT_EQ(drain(inbox, out).size(), static_cast<std::size_t>(sent));
  EXPECT_TRUE(batch.send(as_bytes("more")));
}

TEST_P(Delivery, EverySendersOrderHoldsAndAllGetTheirTurn) {
  auto inbox = open_receiver({.lanes = 8});
  std::vector<sender> senders;
  for (int i = 0; i < 8; ++i)
    senders.push_back(open_sender());
  for (int n = 0; n < 100; ++n) {
    for (std::size_t i = 0; i < senders.size(); ++i) {
      ASSERT_TRUE(senders[i].send(as_bytes(std::to_string(i) + ":" + std::to_string(n))));
    }
  }
  std::vector<int> next(8, 0);
  for (const auto& m : drain(inbox)) {
    const auto who = static_cast<std::size_t>(m[0] - '0');
    EXPECT_EQ(std::stoi(m.substr(2)), next[who]++);
  }
  for (const int n : next)
    EXPECT_EQ(n, 100);
}

TEST_P(Delivery, BusySenderDoesNotStarveTheOthers) {
  auto inbox = open_receiver({.lanes = 2});
  auto busy = open_sender();
  auto quiet = open_sender();
  const std::string big(10000, 'b');
  for (int i = 0; i < 200 && busy.send(as_bytes(big)); ++i) {
  }
  ASSERT_TRUE(quiet.send(as_bytes("me too")));
  int before = 0;
  bool heard = false;
  inbox.poll([&](bytes_view m) {
    if (m.size() < 100)
      heard = true;
    if (!heard)
      ++before;
  });
  EXPECT_TRUE(heard);
  // One turn of 64 KiB, or of 512 KiB through a socket, not the whole lane or buffer.
  EXPECT_LT(before, GetParam().stream ? 70 : 20);
}

TEST_P(Delivery, LimitsBoundOnePoll) {
  auto inbox = open_receiver();
  auto out = open_sender();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(out.send(as_bytes("m")));
  const auto nothing = [](bytes_view) {};
  EXPECT_EQ(inbox.poll(nothing, {.messages = 0}), 0U);
  std::size_t got = 0;
  std::size_t most = 0;
  const auto deadline = now() + 10s;
  while (got < 100 && now() < deadline) {
    const std::size_t one = inbox.poll(nothing, {.messages = 30});
    most = std::max(most, one);
    got += one;
    (void)inbox.wait(1s);  // the network may deliver in parts
  }
  EXPECT_EQ(got, 100U);
  EXPECT_LE(most, 30U);
  EXPECT_GT(most, 1U);
}

TEST_P(Delivery, TimeLimitEndsAPollThatTakesTooLong) {
  auto inbox = open_receiver();
  auto out = open_sender();
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(out.send(as_bytes("m")));
  const auto slow = [](bytes_view) {
    for (const auto end = now() + 100us; now() < end;) {
    }
  };
  const auto delivered = inbox.poll(slow, {.messages = 1000, .time = 1ms});
  EXPECT_GE(delivered, 1U);
  EXPECT_LT(delivered, 100U);
}

TEST_P(Delivery, HandlerMayAskForTheWholeMessage) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  int seen = 0;
  inbox.poll([&](const received_message& m) {
    ++seen;
    EXPECT_EQ(m.lane, out.lane());
    EXPECT_FALSE(m.redelivered);
    EXPECT_EQ(as_text(m.bytes), "x");
  });
  EXPECT_EQ(seen, 1);
}

TEST_P(Delivery, ThrowingHandlerHasHandledItsMessage) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("bad")));
  ASSERT_TRUE(out.send(as_bytes("good")));
  EXPECT_THROW(inbox.poll([](bytes_view) { throw std::runtime_error{"no"}; }), std::runtime_error);
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"good"});
}

TEST_P(Delivery, PollWithinAHandlerDeliversNothing) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("1")));
  ASSERT_TRUE(out.send(as_bytes("2")));
  int outer = 0;
  inbox.poll([&](bytes_view) {
    ++outer;
    EXPECT_EQ(inbox.poll([](bytes_view) { FAIL(); }), 0U);
    EXPECT_EQ(inbox.wait(0ns), errc::invalid_argument);
  });
  EXPECT_EQ(outer, 2);
}

TEST_P(Delivery, SendWithinAHandlerGoesThrough) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("ping")));
  int count = 0;
  for (int i = 0; i < 100; ++i) {
    inbox.poll([&](bytes_view m) {
      ++count;
      if (count < 50) {
        EXPECT_TRUE(out.send(m));
      }
    });
  }
  EXPECT_EQ(count, 50);
}

TEST_P(LaneDelivery, PrivateCopiesAreDeliveredWhenAskedFor) {
  auto inbox = open_receiver({.copy_on_receive = true});
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("first")));
  ASSERT_TRUE(out.send(as_bytes("again")));
  std::vector<const std::byte*> where;
  inbox.poll([&](bytes_view m) { where.push_back(m.data()); });
  ASSERT_EQ(where.size(), 2U);
  EXPECT_EQ(where[0], where[1]);  // the same private buffer, not two places in the lane
}

TEST_P(Delivery, FourThreadsAtFullSpeedLoseNothing) {
  auto inbox = open_receiver({.lanes = 4, .lane_size = 65536, .message_limit = 8192});
  constexpr std::uint64_t each = 50000;
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([this, id] {
      auto out = open_sender();
      std::mt19937_64 random{id};
      for (std::uint64_t n = 0; n < each;) {
        const std::size_t length = 16 + 8 * (random() % 40);
        auto slot = out.claim(length);
        if (!slot) {
          ASSERT_EQ(slot.why(), errc::would_block);
          ASSERT_TRUE(out.wait_writable(30s));
          continue;
        }
        const std::uint64_t words[2] = {id, n};
        std::memcpy(slot.bytes().data(), words, 16);
        for (std::size_t at = 16; at < length; at += 8)
          std::memcpy(slot.bytes().data() + at, &n, 8);
        slot.commit();
        ++n;
      }
    });
  }
  std::uint64_t next[4] = {};
  std::uint64_t total = 0;
  std::uint64_t wrong = 0;
  const auto deadline = now() + 120s;
  while (total < 4 * each && now() < deadline) {
    const auto delivered = inbox.poll([&](bytes_view m) {
      std::uint64_t words[2];
      std::memcpy(words, m.data(), 16);
      if (words[0] > 3 || words[1] != next[words[0]]++)
        ++wrong;
      for (std::size_t at = 16; at < m.size(); at += 8) {
        if (std::memcmp(m.data() + at, &words[1], 8) != 0)
          ++wrong;
      }
    });
    total += delivered;
    if (delivered == 0)
      (void)inbox.wait(1s);
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(total, 4 * each);
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace atbus
