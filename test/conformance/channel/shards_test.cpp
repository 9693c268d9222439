// Several threads receive what comes to one address: each sender's messages in order, at one of them.
#include "channel_kind.h"
#include "child_process.h"
#include "numbered_inbox.h"
#include "numbered_message.h"
#include "shard_crew.h"
#include "shared_memory.h"

namespace atbus {
namespace {

using test::patience;
using test::shard_crew;
using test::shared_counter;

class Shards : public ChannelTest {
 protected:
  std::vector<receiver> open_shards(std::uint32_t count, const receiver_options& options = {}) {
    auto opened = receiver::open_shards(address, count, options);
    EXPECT_TRUE(opened) << opened.error().text();
    if (!opened)
      return {};
    address = opened->front().address();
    return std::move(*opened);
  }
  // Sends until it is accepted.
  static void send(sender& out, std::uint32_t who, std::uint64_t number, std::size_t size = 64) {
    for (;;) {
      const status sent = test::send_number(out, who, number, size);
      if (sent)
        return (void)out.flush();
      ASSERT_EQ(sent, errc::would_block);
      ASSERT_TRUE(out.wait_writable(patience));
    }
  }
};

class LaneShards : public Shards {};

INSTANTIATE_TEST_SUITE_P(Channel, Shards, ::testing::ValuesIn(channel_kinds), kind_name);
INSTANTIATE_TEST_SUITE_P(Channel, LaneShards, ::testing::ValuesIn(lane_kinds), kind_name);

TEST_P(Shards, EachSenderComesToOneShardInOrder) {
  constexpr std::uint32_t threads = 3;
  constexpr std::uint32_t senders_each = 5;
  constexpr std::uint64_t messages = 300;
  shard_crew crew{open_shards(3)};
  std::vector<std::thread> sending;
  for (std::uint32_t t = 0; t < threads; ++t) {
    sending.emplace_back([&, t] {
      std::vector<sender> outs;
      for (std::uint32_t i = 0; i < senders_each; ++i)
        outs.push_back(open_sender());
      for (std::uint64_t n = 1; n <= messages; ++n) {
        for (std::uint32_t i = 0; i < senders_each; ++i)
          send(outs[i], 1 + t * senders_each + i, n, 24 + n % 500);
      }
      for (sender& each : outs)
        EXPECT_TRUE(each.flush(patience));
    });
  }
  for (std::thread& each : sending)
    each.join();
  EXPECT_TRUE(crew.arrived().wait(threads * senders_each * messages));
  (void)crew.end();
  EXPECT_EQ(crew.account(threads * senders_each, messages), "");
  for (const std::size_t senders : crew.senders_of())
    EXPECT_GE(senders, 1U);
}

TEST_P(Shards, FewSendersAreSharedOutEvenly) {
  shard_crew crew{open_shards(4)};
  std::vector<sender> outs;
  for (std::uint32_t who = 1; who <= 8; ++who) {
    outs.push_back(open_sender());
    send(outs.back(), who, 1);
    ASSERT_TRUE(crew.arrived().wait(who));
  }
  (void)crew.end();
  EXPECT_EQ(crew.account(8, 1), "");
  EXPECT_EQ(crew.senders_of(), (std::vector<std::size_t>{2, 2, 2, 2}));
}

// Those that sleep are woken for each message: a ring that is lost shows, because the test does not wait that long.
TEST_P(Shards, ThatSleepAreWoken) {
  constexpr std::uint32_t count = 3;
  constexpr std::uint64_t rounds = 100;
  shard_crew crew{open_shards(count, {.spin = 0ns}), {}, patience + 10s};
  std::vector<sender> outs;
  for (std::uint32_t who = 1; who <= count; ++who) {
    outs.push_back(open_sender());
    send(outs.back(), who, 1);
    ASSERT_TRUE(crew.arrived().wait(who));
  }
  std::minstd_rand random{1};
  for (std::uint64_t n = 2; n <= rounds; ++n) {
    std::array<std::uint32_t, count> order{1, 2, 3};
    std::ranges::shuffle(order, random);
    for (const std::uint32_t who : order) {
      send(outs[who - 1], who, n);
      if (random() % 2 == 0) {
        ASSERT_TRUE(crew.arrived().wait(static_cast<std::uint32_t>(count * (n - 1)) + 1));
      }
    }
    ASSERT_TRUE(crew.arrived().wait(static_cast<std::uint32_t>(count * n))) << n;
  }
  crew.ask_to_end();
  for (std::uint32_t who = 1; who <= count; ++who)
    send(outs[who - 1], who, rounds + 1);
  (void)crew.end();
  EXPECT_EQ(crew.senders_of(), (std::vector<std::size_t>{1, 1, 1}));
}

// Neither what is there nor who comes meanwhile waits for a shard that is busy.
TEST_P(Shards, ThatAreInAHandlerHoldNobodyElseUp) {
  shared_counter stuck;
  shared_counter go_on;
  shard_crew crew{open_shards(2), [&](std::size_t, const test::message_stamp& stamp) {
                    if (stamp.sender == 1) {
                      stuck.add();
                      EXPECT_TRUE(go_on.wait());
                    }
                  }};
  std::vector<sender> outs;
  outs.push_back(open_sender());
  send(outs.back(), 1, 1);
  ASSERT_TRUE(stuck.wait());
  for (std::uint32_t who = 2; who <= 7; ++who) {
    outs.push_back(open_sender());
    send(outs.back(), who, 1);
  }
  // At least three of the six belong to the other one.
  EXPECT_TRUE(crew.arrived().wait(3));
  go_on.add();
  EXPECT_TRUE(crew.arrived().wait(7));
  (void)crew.end();
  EXPECT_EQ(crew.account(7, 1), "");
}

TEST_P(Shards, WakeASenderThatWaitsForRoom) {
  shard_crew crew{open_shards(2, {.lane_size = 4096, .message_limit = 1000})};
  sender one = open_sender({.message_limit = 1000});
  sender other = open_sender({.message_limit = 1000});
  for (std::uint64_t n = 1; n <= 500; ++n) {
    send(one, 1, n, 900);
    send(other, 2, n, 900);
  }
  EXPECT_TRUE(one.flush(patience));
  EXPECT_TRUE(other.flush(patience));
  EXPECT_TRUE(crew.arrived().wait(1000));
  (void)crew.end();
  EXPECT_EQ(crew.account(2, 500), "");
}

TEST_P(Shards, MayBeClosedInAHandler) {
  auto shards = open_shards(2);
  std::vector<sender> outs;
  std::size_t came = 0;
  std::array<bool, 2> closed{};
  const auto until = now() + patience;
  for (int i = 0; i < 2; ++i) {
    outs.push_back(open_sender());
    ASSERT_TRUE(outs.back().send(as_bytes("the last")));
    while (came != outs.size() && now() < until) {
      (void)outs.back().flush();
      for (std::size_t at = 0; at < 2; ++at) {
        (void)shards[at].poll([&](bytes_view m) {
          closed[at] = true;
          shards[at].close();
          EXPECT_EQ(as_text(m), "the last") << "memory is there until the handler returns";
          ++came;
        });
      }
    }
  }
  EXPECT_EQ(came, 2U);
  EXPECT_EQ(closed, (std::array<bool, 2>{true, true}));
  auto next = receiver::open(address);
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_TRUE(drain(*next).empty()) << "it was handled";
}

TEST_P(Shards, OneShardIsAReceiver) {
  auto shards = open_shards(1);
  ASSERT_EQ(shards.size(), 1U);
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("alone")));
  EXPECT_EQ(drain(shards[0]), std::vector<std::string>{"alone"});
}

TEST_P(Shards, HaveTheAddressToThemselves) {
  auto shards = open_shards(2);
  EXPECT_EQ(receiver::open(address).error(), errc::receiver_exists);
  EXPECT_EQ(receiver::open_shards(address, 2).error(), errc::receiver_exists);
  shards.erase(shards.begin());
  EXPECT_EQ(receiver::open(address).error(), errc::receiver_exists) << "one is still there";
  shards.clear();
  EXPECT_TRUE(receiver::open(address));
}

TEST_P(Shards, RefuseANumberThatIsNotPossible) {
  EXPECT_EQ(receiver::open_shards(address, 0).error(), errc::invalid_argument);
  EXPECT_EQ(receiver::open_shards(address, receiver::shards_max + 1).error(),
            errc::invalid_argument);
  auto most = open_shards(receiver::shards_max);
  EXPECT_EQ(most.size(), receiver::shards_max);
}

// A child that lives on holds nothing.
TEST_P(Shards, AreTheParentsAfterAFork) {
  auto shards = open_shards(3);
  auto out = open_sender();
  test::shared<shared_counter> begun;
  test::shared<shared_counter> end;
  test::child_process child{[&] {
    for (receiver& each : shards) {
      if (each.poll([](bytes_view) {}) != 0 || each.wait(0ns) != errc::used_after_fork)
        return 1;
      each.close();
    }
    begun->add();
    return end->wait() ? 0 : 2;
  }};
  ASSERT_TRUE(begun->wait());
  ASSERT_TRUE(out.send(as_bytes("parent's")));
  std::vector<std::string> got;
  EXPECT_TRUE([&] {
    for (const auto until = now() + patience; got.empty() && now() < until;) {
      for (receiver& each : shards)
        (void)each.poll([&](bytes_view m) { got.emplace_back(as_text(m)); });
      (void)out.flush();
    }
    return !got.empty();
  }());
  shards.clear();
  EXPECT_TRUE(receiver::open(address)) << "the child holds it";
  end->add();
  EXPECT_EQ(child.wait_end(), "exit 0");
}

// --- lanes

// What was left, and what senders send that have never heard of it, comes to whoever has the lane now.
TEST_P(LaneShards, AnotherNumberOfThemAfterARestartGoesOnWhereTheLastStopped) {
  constexpr std::uint32_t senders = 7;
  std::map<std::uint32_t, std::vector<std::uint64_t>> got;
  std::vector<sender> outs;
  std::uint64_t sent = 0;
  const auto send_some = [&] {
    for (int i = 0; i < 20; ++i) {
      ++sent;
      for (std::uint32_t who = 1; who <= senders; ++who)
        send(outs[who - 1], who, sent);
    }
  };
  std::vector<receiver> shards = open_shards(4);
  for (std::uint32_t who = 1; who <= senders; ++who)
    outs.push_back(open_sender());
  for (const std::uint32_t next : {3U, 5U, 1U, 2U}) {
    send_some();
    std::set<std::uint32_t> here;
    for (receiver& each : shards) {
      std::set<std::uint32_t> at_this;
      (void)each.poll(
          [&](const received_message& m) {
            EXPECT_FALSE(m.redelivered);
            test::message_stamp stamp;
            EXPECT_TRUE(test::read_message(m.bytes, stamp));
            got[stamp.sender].push_back(stamp.number);
            at_this.insert(stamp.sender);
          },
          {.messages = 13});
      for (const std::uint32_t who : at_this)
        EXPECT_TRUE(here.insert(who).second) << "at two shards";
    }
    shards.clear();
    send_some();
    shards = open_shards(next);
    send_some();
  }
  for (receiver& each : shards) {
    while (each.poll([&](bytes_view m) {
      test::message_stamp stamp;
      EXPECT_TRUE(test::read_message(m, stamp));
      got[stamp.sender].push_back(stamp.number);
    }) != 0) {
    }
  }
  for (std::uint32_t who = 1; who <= senders; ++who)
    EXPECT_EQ(got[who], test::numbered_inbox::all_up_to(sent)) << who;
}

TEST_P(LaneShards, ThatAreClosedLeaveTheirMessagesToTheNextOnes) {
  auto shards = open_shards(2);
  auto even = open_sender();
  auto odd = open_sender();
  ASSERT_EQ(even.lane(), 0U);
  ASSERT_EQ(odd.lane(), 1U);
  shards[0].close();
  ASSERT_TRUE(even.send(as_bytes("for who comes")));
  ASSERT_TRUE(odd.send(as_bytes("now")));
  EXPECT_EQ(drain(shards[1]), std::vector<std::string>{"now"});
  EXPECT_TRUE(even.receiver_alive()) << "the address has one";
  EXPECT_EQ(even.take_back([](bytes_view, errc) {}).error(), errc::receiver_alive);
  shards.clear();
  EXPECT_FALSE(even.receiver_alive());
  shards = open_shards(2);
  EXPECT_EQ(drain(shards[0]), std::vector<std::string>{"for who comes"});
}

TEST_P(LaneShards, EndTheSegmentWithTheLastThatIsRemoved) {
  auto shards = open_shards(3);
  auto out = open_sender();
  EXPECT_TRUE(shards[1].remove());
  EXPECT_TRUE(out.look()) << "two are left";
  shards[0].close();
  EXPECT_TRUE(out.look());
  EXPECT_TRUE(shards[2].remove());
  EXPECT_EQ(out.look(), errc::retired);
  EXPECT_EQ(sender::open(address).error(), errc::not_found);
}

TEST_P(LaneShards, StayWithAnAddressWhoseLastOneIsClosed) {
  auto shards = open_shards(2);
  auto out = open_sender();
  EXPECT_TRUE(shards[0].remove());
  shards[1].close();
  EXPECT_TRUE(out.look());
  EXPECT_TRUE(sender::open(address));
}

TEST_P(LaneShards, NeedALaneEach) {
  EXPECT_EQ(receiver::open_shards(address, 5, {.lanes = 4}).error(), errc::invalid_argument);
  EXPECT_EQ(sender::open(address).error(), errc::not_found) << "nothing is left of it";
  auto enough = open_shards(4, {.lanes = 4});
  enough.clear();
  EXPECT_EQ(receiver::open_shards(address, 5).error(), errc::invalid_argument);
  EXPECT_TRUE(receiver::open(address)) << "what was there stays";
}

TEST_P(LaneShards, KnowTheirOwnLanesOnly) {
  auto shards = open_shards(2);
  auto even = open_sender();
  auto odd = open_sender();
  ASSERT_TRUE(even.send(as_bytes("even")));
  ASSERT_TRUE(odd.send(as_bytes("odd")));
  for (receiver& each : shards)
    EXPECT_EQ(drain(each).size(), 1U);
  EXPECT_NE(shards[0].session(0), 0U);
  EXPECT_EQ(shards[0].session(1), 0U);
  EXPECT_EQ(shards[1].session(0), 0U);
  EXPECT_NE(shards[1].session(1), 0U);
  shards[0].set_note(1, {1, 2, 3});
  EXPECT_EQ(shards[1].note(1), (std::array<std::uint64_t, 3>{}));
  shards[0].drop(1);
  ASSERT_TRUE(odd.send(as_bytes("odd")));
  EXPECT_EQ(drain(shards[1]).size(), 1U);
  EXPECT_EQ(shards[0].stats().messages, 1U);
  EXPECT_EQ(shards[1].stats().messages, 2U);
}

// A lane goes to a new sender after its last one's end, at its own shard.
TEST_P(LaneShards, FreeLanesOfSendersThatHaveEnded) {
  auto shards = open_shards(2, {.lanes = 2});
  for (std::uint64_t n = 1; n <= 20; ++n) {
    auto even = open_sender();
    auto odd = open_sender();
    ASSERT_EQ(even.lane() + odd.lane(), 1U);
    ASSERT_TRUE(even.send(as_bytes("x")));
    ASSERT_TRUE(odd.send(as_bytes("x")));
    EXPECT_EQ(drain(shards[0]).size(), 1U);
    EXPECT_EQ(drain(shards[1]).size(), 1U);
  }
}

// --- streams

class StreamShards : public Shards {};
INSTANTIATE_TEST_SUITE_P(Channel, StreamShards,
                         ::testing::Values(channel_kinds[2], channel_kinds[5], channel_kinds[6],
                                           channel_kinds[7]),
                         kind_name);

TEST_P(StreamShards, ThatAreClosedLeaveTheirSendersToTheOthers) {
  auto shards = open_shards(2);
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  std::optional<std::size_t> at;
  const auto until = now() + patience;
  ASSERT_TRUE(out.send(as_bytes("one")));
  while (!at && now() < until) {
    (void)out.flush();
    for (std::size_t i = 0; i < 2; ++i) {
      if (shards[i].poll([](bytes_view) {}) != 0)
        at = i;
    }
  }
  ASSERT_TRUE(at);
  shards[*at].close();
  bool came = false;
  for (std::uint64_t n = 1; !came && now() < until; ++n) {
    (void)out.send(as_bytes("two"));
    (void)out.flush(1ms);
    (void)shards[1 - *at].poll([&](bytes_view) { came = true; });
  }
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace atbus
