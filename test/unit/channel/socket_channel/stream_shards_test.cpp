// Which of several receivers at one listener a sender's connections come to, and what comes with them.
#include "channel/socket_channel/stream_shards.h"

#include "fault_proxy.h"
#include "plain_socket.h"
#include "shard_crew.h"
#include "stream_bytes.h"
#include "stream_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using test::direction;
using test::fault_proxy;
using test::plain_socket;
using test::proxy_counts;

class StreamShards : public Stream {
 protected:
  ~StreamShards() override { detail::kernel() = usual_; }

  void open_shards(std::uint32_t count, const receiver_options& options = {}) {
    if (address.starts_with("unix"))
      address += "?shm=0";
    auto opened = receiver::open_shards(address, count, options);
    ASSERT_TRUE(opened) << opened.error().text();
    shards = std::move(*opened);
    address = shards[0].address();
    for (receiver& each : shards)
      each.on_problem([this](const error& what) { problems.push_back(what.text()); });
  }
  // The bytes that a sender begins with.
  static detail::byte_string hello_of(std::uint32_t sender, std::uint32_t connection) {
    detail::byte_string bytes;
    detail::append(
        bytes, detail::hello_frame(
                   {.wants_checksums = true, .session = std::uint64_t{sender} << 32 | connection}));
    return bytes;
  }
  void say(detail::byte_string& to, std::string_view text) const {
    detail::append(to, detail::data_frame(as_bytes(text), true));
  }
  [[nodiscard]] plain_socket dial() const {
    return plain_socket::connect(address.substr(0, address.find('?')));
  }
  // Polls all shards in turns until so many messages came; which shard it was is noted.
  [[nodiscard]] bool collect(std::size_t count, const std::function<void()>& step = {}) {
    return repeat_until([&] { return got.size() >= count; },
                        [&] {
                          if (step)
                            step();
                          poll_all();
                        });
  }
  void poll_all() {
    for (std::size_t i = 0; i < shards.size(); ++i)
      (void)shards[i].poll([&](bytes_view m) { got.emplace_back(as_text(m), i); });
  }

  std::vector<receiver> shards;
  std::vector<std::pair<std::string, std::size_t>> got;
  std::vector<std::string> problems;

 private:
  detail::kernel_calls usual_ = detail::kernel();
};

INSTANTIATE_TEST_SUITE_P(Channel, StreamShards,
                         ::testing::Values("ipv4://127.0.0.1:", "ipv6://[::1]:", "unix://@",
                                           "unix:///tmp/atbus-"),
                         stream_name);

TEST_P(StreamShards, ASenderComesBackToItsShard) {
  open_shards(3);
  std::map<std::uint32_t, std::size_t> shard_of;
  std::vector<plain_socket> others;
  std::uint32_t number = 0;
  for (std::uint32_t round = 0; round < 4; ++round) {
    for (const std::uint32_t who : {7U, 8U, 9U, 7U, 10U}) {
      plain_socket own = dial();
      auto bytes = hello_of(who, ++number);
      say(bytes, "it is me");
      ASSERT_TRUE(own.send(as_string(bytes)));
      got.clear();
      ASSERT_TRUE(collect(1));
      const auto [at, is_new] = shard_of.try_emplace(who, got[0].second);
      EXPECT_EQ(at->second, got[0].second) << "sender " << who << " in round " << round;
      // Meanwhile the shards get others, so that another one would be the emptiest.
      others.push_back(dial());
      ASSERT_TRUE(others.back().send(as_string(hello_of(1000 + number, 1))));
    }
  }
  std::set<std::size_t> used;
  for (const auto& one : shard_of)
    used.insert(one.second);
  EXPECT_GT(used.size(), 1U);
  EXPECT_TRUE(problems.empty()) << problems[0];
}

TEST_P(StreamShards, WhatIsReadWithTheHelloGoesAlong) {
  open_shards(3);
  std::vector<plain_socket> own;
  const std::string longest(40'000, 'x');
  constexpr std::size_t senders = 9;
  constexpr std::size_t messages = 52;
  for (std::uint32_t who = 0; who < senders; ++who) {
    own.push_back(dial());
    auto bytes = hello_of(who, 1);
    for (std::uint32_t n = 0; n < 50; ++n)
      say(bytes, std::to_string(who) + " " + std::to_string(n));
    // The first half of one that no read space keeps.
    const std::size_t whole = bytes.size();
    say(bytes, longest);
    bytes.resize(whole + 20'000);
    ASSERT_TRUE(own.back().send(as_string(bytes)));
  }
  ASSERT_TRUE(collect(senders * 50));
  for (std::uint32_t who = 0; who < senders; ++who) {
    detail::byte_string rest;
    say(rest, longest);
    rest.erase(rest.begin(), rest.begin() + 20'000);
    say(rest, std::to_string(who) + " end");
    ASSERT_TRUE(own[who].send(as_string(rest)));
  }
  ASSERT_TRUE(collect(senders * messages));
  std::array<std::size_t, 3> at{};
  for (std::uint32_t who = 0; who < senders; ++who) {
    std::vector<std::string> texts;
    std::set<std::size_t> where;
    for (const auto& [text, shard] : got) {
      if (text.starts_with(std::to_string(who) + " ")) {
        texts.push_back(text.substr(text.find(' ') + 1));
        where.insert(shard);
      }
    }
    ASSERT_EQ(texts.size(), 51U);
    for (std::uint32_t n = 0; n < 50; ++n)
      EXPECT_EQ(texts[n], std::to_string(n));
    EXPECT_EQ(texts.back(), "end");
    EXPECT_EQ(where.size(), 1U);
    ++at[*where.begin()];
  }
  EXPECT_EQ(at, (std::array<std::size_t, 3>{3, 3, 3}));
  EXPECT_EQ(std::ranges::count_if(got, [&](const auto& one) { return one.first == longest; }),
            std::ptrdiff_t{senders});
  EXPECT_TRUE(problems.empty()) << problems[0];
}

int accepted = 0;

// What it has read has left the memory of the shard that accepted it.
TEST_P(StreamShards, AConnectionThatWasPassedOnOutlivesTheShardThatAcceptedIt) {
  open_shards(2);
  accepted = 0;
  detail::kernel().accept = [](int fd, int flags) {
    const int made = ::accept4(fd, nullptr, nullptr, flags);
    accepted += made >= 0 ? 1 : 0;
    return made;
  };
  plain_socket first = dial();
  auto bytes = hello_of(1, 1);
  say(bytes, "of the first shard");
  ASSERT_TRUE(first.send(as_string(bytes)));
  const auto turn_first = [&] {
    (void)shards[0].poll([&](bytes_view m) { got.emplace_back(as_text(m), 0); });
  };
  ASSERT_TRUE(repeat_until([&] { return got.size() == 1; }, turn_first));
  plain_socket second = dial();
  bytes = hello_of(2, 1);
  for (std::uint32_t n = 0; n < 1000; ++n)
    say(bytes, std::to_string(n));
  ASSERT_TRUE(second.send(as_string(bytes)));
  // It has accepted it and has it no more.
  ASSERT_TRUE(repeat_until([&] { return accepted == 2 && shards[0].stats().connections == 1; },
                           turn_first));
  shards[0].close();
  ASSERT_TRUE(collect(1001));
  for (std::uint32_t n = 0; n < 1000; ++n)
    ASSERT_EQ(got[n + 1], (std::pair{std::to_string(n), std::size_t{1}}));
}

TEST_P(StreamShards, AHelloThatComesInPiecesIsWaitedFor) {
  open_shards(2);
  plain_socket first = dial();
  auto bytes = hello_of(1, 1);
  say(bytes, "whole");
  for (const std::byte one : bytes) {
    ASSERT_TRUE(first.send({reinterpret_cast<const char*>(&one), 1}));
    poll_all();
  }
  ASSERT_TRUE(collect(1));
  EXPECT_EQ(got[0].first, "whole");
}

TEST_P(StreamShards, WhoSpeaksAnotherLanguageIsOneShardsProblem) {
  open_shards(2);
  plain_socket stranger = dial();
  ASSERT_TRUE(stranger.send("GET / HTTP/1.1\r\nHost: of nobody, whose words are long enough\r\n"));
  plain_socket own = dial();
  auto bytes = hello_of(1, 1);
  say(bytes, "ours");
  bytes[bytes.size() - 8] ^= std::byte{1};  // the rest is padding
  say(bytes, "behind a broken one");
  ASSERT_TRUE(own.send(as_string(bytes)));
  const auto faulty = [this] {
    return shards[0].stats().quarantined + shards[1].stats().quarantined;
  };
  ASSERT_TRUE(repeat_until([&] { return faulty() == 2; }, [&] { poll_all(); })) << faulty();
  EXPECT_TRUE(got.empty()) << got[0].first;
  EXPECT_FALSE(problems.empty());
}

// The real sender, with connections that are cut under it: those before it wanted came to the same thread.
TEST_P(StreamShards, ASenderThatDialsAgainStaysWhereItWas) {
  open_shards(4);
  fault_proxy proxy{address.substr(0, address.find('?'))};
  auto opened = sender::open(proxy.address() + (address.starts_with("unix") ? "?shm=0" : ""),
                             {.reconnect_min = 1ms, .reconnect_max = 5ms});
  ASSERT_TRUE(opened) << opened.error().text();
  sender& out = *opened;
  std::vector<plain_socket> others;
  for (std::uint32_t round = 1; round <= 5; ++round) {
    ASSERT_TRUE(out.send(as_bytes(std::to_string(round))));
    ASSERT_TRUE(collect(round, [&] { (void)out.flush(); }));
    EXPECT_EQ(got.back(), (std::pair{std::to_string(round), got[0].second}));
    others.push_back(dial());
    ASSERT_TRUE(others.back().send(as_string(hello_of(round, 1))));
    proxy.cut();
    ASSERT_TRUE(repeat_until([&] { return out.stats().reconnects == round; },
                             [&] {
                               poll_all();
                               (void)out.poll_writable();
                               (void)out.flush();
                             }));
  }
}

// Whose messages came first: those of the connection that was lost in between must not come behind them.
TEST_P(StreamShards, AConnectionThatWasOvertakenIsClosed) {
  open_shards(2);
  plain_socket first = dial();
  plain_socket second = dial();
  auto bytes = hello_of(5, 2);
  say(bytes, "from the second one");
  ASSERT_TRUE(second.send(as_string(bytes)));
  ASSERT_TRUE(collect(1));
  bytes = hello_of(5, 1);
  say(bytes, "too late");
  ASSERT_TRUE(first.send(as_string(bytes)));
  ASSERT_TRUE(repeat_until([&] { return first.ended() == "end of file"; },
                           [&] {
                             poll_all();
                             (void)first.receive_some(100, 0ns);
                           }));
  EXPECT_EQ(got.size(), 1U);
  bytes.clear();
  say(bytes, "goes on");
  ASSERT_TRUE(second.send(as_string(bytes)));
  EXPECT_TRUE(collect(2));
}

// Its shard was busy: what an earlier connection brought waits there, and the later one at the door.
TEST_P(StreamShards, ALaterConnectionComesBehindWhatWaitsOfAnEarlierOne) {
  accepted = 0;
  detail::kernel().accept = [](int fd, int flags) {
    const int made = ::accept4(fd, nullptr, nullptr, flags);
    accepted += made >= 0 ? 1 : 0;
    return made;
  };
  open_shards(2);
  const auto turn = [&](std::size_t i) {
    (void)shards[i].poll([&, i](bytes_view m) { got.emplace_back(as_text(m), i); });
  };
  std::vector<plain_socket> own;
  std::uint32_t number = 0;
  const auto say_at_new_one = [&] {
    own.push_back(dial());
    auto bytes = hello_of(5, ++number);
    say(bytes, std::to_string(number));
    ASSERT_TRUE(own.back().send(as_string(bytes)));
  };
  say_at_new_one();
  ASSERT_TRUE(repeat_until([&] { return got.size() == 1; }, [&] { turn(0); }));
  for (int round = 0; round < 8; ++round) {
    const int before = accepted;
    std::size_t wanted = got.size() + 2;
    say_at_new_one();
    ASSERT_TRUE(
        repeat_until([&] { return accepted == before + 1 && shards[1].stats().connections == 0; },
                     [&] { turn(1); }));
    own.back().close();
    say_at_new_one();
    if (round % 2 == 0) {  // who was known and who was not have turns
      detail::byte_string bytes;
      say(bytes, "1");
      ASSERT_TRUE(own[0].send(as_string(bytes)));
      ++wanted;
    }
    ASSERT_TRUE(repeat_until([&] { return got.size() >= wanted; }, [&] { turn(0); }));
    std::erase_if(got, [](const auto& one) { return one.first == "1"; });
    ASSERT_EQ(got.size(), number - 1) << "in round " << round;
    for (std::uint32_t n = 2; n <= number; ++n)
      EXPECT_EQ(got[n - 2], (std::pair{std::to_string(n), std::size_t{0}}));
  }
  EXPECT_TRUE(problems.empty()) << problems[0];
}

TEST_P(StreamShards, StrangersKeepNobodyOutWhoIsKnown) {
  open_shards(2, {.connections = 2});
  const auto turn = [&](std::size_t i) {
    (void)shards[i].poll([&, i](bytes_view m) { got.emplace_back(as_text(m), i); });
  };
  std::vector<plain_socket> own;
  const auto greet = [&](std::uint32_t who, std::uint32_t number) {
    own.push_back(dial());
    auto bytes = hello_of(who, number);
    say(bytes, std::to_string(who));
    ASSERT_TRUE(own.back().send(as_string(bytes)));
  };
  greet(1, 1);
  ASSERT_TRUE(repeat_until([&] { return got.size() == 1; }, [&] { turn(0); }));
  greet(2, 1);
  ASSERT_TRUE(collect(2));
  plain_socket silent = dial();
  ASSERT_TRUE(repeat_until([&] { return shards[1].stats().connections == 2; }, [&] { turn(1); }));
  greet(2, 2);
  ASSERT_TRUE(repeat_until([&] { return !problems.empty() || got.size() == 3; },
                           [&] {
                             turn(0);
                             turn(1);
                           }));
  ASSERT_EQ(got.size(), 3U) << problems[0];
  EXPECT_EQ(got[2], (std::pair{std::string{"2"}, std::size_t{1}}));
  EXPECT_EQ(shards[1].stats().strangers.crowded, 1U);
  EXPECT_EQ(shards[1].stats().connections, 2U);
}

TEST_P(StreamShards, WhoClaimsANumberKeepsOthersOutOnlyWhileConnected) {
  open_shards(2);
  plain_socket claims = dial();
  auto bytes = hello_of(5, 0xffffffff);
  say(bytes, "all numbers are mine");
  ASSERT_TRUE(claims.send(as_string(bytes)));
  ASSERT_TRUE(collect(1));
  const auto say_at_new_one = [&](plain_socket& at) {
    at = dial();
    bytes = hello_of(5, 3);
    say(bytes, "its third");
    ASSERT_TRUE(at.send(as_string(bytes)));
  };
  plain_socket third;
  say_at_new_one(third);
  ASSERT_TRUE(repeat_until([&] { return third.ended() == "end of file"; },
                           [&] {
                             poll_all();
                             (void)third.receive_some(100, 0ns);
                           }));
  EXPECT_EQ(shards[0].stats().unconfirmed_dropped + shards[1].stats().unconfirmed_dropped, 1U);
  claims.close();
  ASSERT_TRUE(repeat_until(
      [&] { return shards[0].stats().connections + shards[1].stats().connections == 0; },
      [&] { poll_all(); }));
  say_at_new_one(third);
  EXPECT_TRUE(collect(2));
}

TEST_P(StreamShards, HaveAsManyConnectionsAsAllowedEach) {
  open_shards(2, {.connections = 2});
  std::vector<plain_socket> own;
  for (std::uint32_t n = 1; n <= 3; ++n) {  // of one sender, so for one shard
    own.push_back(dial());
    auto bytes = hello_of(5, n);
    say(bytes, "here");
    ASSERT_TRUE(own.back().send(as_string(bytes)));
    if (n < 3) {
      ASSERT_TRUE(collect(n));
    }
  }
  // The third waits in the backlog, or is closed by its shard if the other one has accepted it.
  for (int i = 0; i < 1000 && problems.empty(); ++i)
    poll_all();
  EXPECT_EQ(got.size(), 2U);
  own[0].close();
  own.push_back(dial());
  auto bytes = hello_of(5, 4);
  say(bytes, "now");
  ASSERT_TRUE(own.back().send(as_string(bytes)));
  EXPECT_TRUE(repeat_until(
      [&] { return std::ranges::any_of(got, [](const auto& m) { return m.first == "now"; }); },
      [&] {
        poll_all();
        if (own[2].is_open() && own[2].receive_some(100, 0ns).empty() &&
            own[2].ended() != "silence")
          own[2].close();
      }))
      << problems.size();
}

// Otherwise who says that it is that shard's sender could have all descriptors of the process.
TEST_P(StreamShards, ThatDoNotPollKeepNoMoreConnectionsWaitingThanTheyMayHave) {
  open_shards(2, {.connections = 3});
  std::vector<plain_socket> own;
  // The first one comes to the shard that polls, the next sender to the other one.
  own.push_back(dial());
  ASSERT_TRUE(own.back().send(as_string(hello_of(1, 1))));
  ASSERT_TRUE(repeat_until([&] { return shards[0].stats().connections == 1; },
                           [&] { (void)shards[0].poll([](bytes_view) {}); }));
  std::size_t closed = 0;
  for (std::uint32_t n = 1; n <= 8; ++n) {
    own.push_back(dial());
    ASSERT_TRUE(own.back().send(as_string(hello_of(2, n))));
    if (n > 3) {
      ASSERT_TRUE(repeat_until([&] { return own.back().ended() == "end of file"; },
                               [&] {
                                 (void)shards[0].poll([](bytes_view) {});
                                 (void)own.back().receive_some(100, 0ns);
                               }));
      ++closed;
    }
  }
  EXPECT_EQ(closed, 5U);
  ASSERT_TRUE(
      repeat_until([&] { return shards[1].stats().connections == 3; }, [&] { poll_all(); }));
}

TEST(EncryptedShards, EachSenderComesToOneOfThem) {
  const socket_options encrypted{
      .tls = *tls_credentials::from_token("a secret of the test, long enough")};
  auto opened = receiver::open_shards("ipv6://[::1]:0", 3, {.socket = encrypted});
  ASSERT_TRUE(opened) << opened.error().text();
  const std::string address = (*opened)[0].address();
  test::shard_crew crew{std::move(*opened)};
  constexpr std::uint32_t senders = 12;
  constexpr std::uint64_t messages = 100;
  std::vector<sender> outs;
  for (std::uint32_t who = 1; who <= senders; ++who) {
    auto out = sender::open(address, {.socket = encrypted});
    ASSERT_TRUE(out) << out.error().text();
    outs.push_back(std::move(*out));
  }
  for (std::uint64_t n = 1; n <= messages; ++n) {
    for (std::uint32_t who = 1; who <= senders; ++who) {
      std::array<std::byte, 700> bytes;
      test::write_message(bytes, who, n);
      ASSERT_TRUE(outs[who - 1].send(bytes));
    }
  }
  for (sender& each : outs)
    EXPECT_TRUE(each.flush(patience));
  EXPECT_TRUE(crew.arrived().wait(senders * messages));
  (void)crew.end();
  EXPECT_EQ(crew.account(senders, messages), "");
  EXPECT_EQ(crew.senders_of(), (std::vector<std::size_t>{4, 4, 4}));
}

// --- what the shards share

using detail::stream_shards;

class ShardTable : public ::testing::Test {
 protected:
  ShardTable() {
    const detail::fork_pause no_fork;
    table_ = std::make_unique<stream_shards>(detail::listening_socket{}, 3, 100);
  }
  ~ShardTable() override {
    const detail::fork_pause no_fork;
    table_.reset();
  }
  // In its next connection.
  std::optional<std::uint32_t> arrived(std::uint32_t who) {
    return table_->arrived(std::uint64_t{who} << 32 | ++dialled_, now());
  }

  std::unique_ptr<stream_shards> table_;
  std::uint32_t dialled_ = 0;
};

TEST_F(ShardTable, GivesEachNewSenderTheShardWithTheFewest) {
  for (std::uint32_t who = 0; who < 9; ++who)
    EXPECT_EQ(arrived(who), who % 3);
  table_->gone(1, 1);
  EXPECT_EQ(arrived(20), 1U);
  EXPECT_EQ(arrived(1), 1U) << "it was there";
  EXPECT_EQ(arrived(0), 0U) << "a second connection";
}

TEST_F(ShardTable, TurnsAwayWhatWasOvertaken) {
  constexpr std::uint64_t who = std::uint64_t{7} << 32;
  const auto early = now();
  EXPECT_EQ(table_->arrived(who | 2, early), 0U);
  EXPECT_TRUE(table_->begins(who | 2));
  EXPECT_EQ(table_->arrived(who | 1, early), std::nullopt);
  EXPECT_EQ(table_->arrived(who | 3, early), 0U);
  EXPECT_TRUE(table_->begins(who | 3));
  table_->gone(7, 0);
  table_->gone(7, 0);
  EXPECT_EQ(table_->arrived(who | 2, early), std::nullopt) << "also when the newer one is gone";
  EXPECT_EQ(table_->arrived(std::uint64_t{8} << 32 | 1, early), 0U) << "it was not counted";
}

TEST_F(ShardTable, WhatCountsIsWhichConnectionBeginsFirst) {
  constexpr std::uint64_t who = std::uint64_t{7} << 32;
  EXPECT_EQ(table_->arrived(who | 5, now()), 0U);
  EXPECT_EQ(table_->arrived(who | 6, now()), 0U);
  EXPECT_TRUE(table_->begins(who | 6));
  EXPECT_FALSE(table_->begins(who | 5));
  EXPECT_FALSE(table_->begins(std::uint64_t{8} << 32)) << "has not arrived";
}

// Otherwise who claims the highest one keeps that sender out for ever.
TEST_F(ShardTable, ANumberCountsForWhatWasAcceptedBeforeItsConnectionEnded) {
  constexpr std::uint64_t who = std::uint64_t{7} << 32;
  constexpr std::uint64_t highest = who | 0xffffffff;
  EXPECT_EQ(table_->arrived(highest, now()), 0U);
  EXPECT_TRUE(table_->begins(highest));
  EXPECT_EQ(table_->arrived(who | 2, now()), std::nullopt);
  const auto early = now();
  table_->gone(7, 0);
  const auto later = now() + 1ns;
  EXPECT_EQ(table_->arrived(who | 3, early), std::nullopt);
  EXPECT_EQ(table_->arrived(who | 4, later), 0U);
  EXPECT_EQ(table_->arrived(who | 3, early), std::nullopt) << "is older than what has arrived";
  EXPECT_TRUE(table_->begins(who | 4));
}

TEST_F(ShardTable, ForgetsTheLongestGoneOnly) {
  constexpr auto most = static_cast<std::uint32_t>(stream_shards::remembered_max);
  EXPECT_EQ(arrived(0), 0U);
  EXPECT_EQ(arrived(1), 1U);
  EXPECT_EQ(arrived(2), 2U);
  table_->gone(1, 1);
  table_->gone(2, 2);
  for (std::uint32_t who = 10; who < 10 + most - 1; ++who) {
    const auto at = arrived(who);
    ASSERT_TRUE(at);
    table_->gone(who, *at);
  }
  EXPECT_EQ(arrived(2), 2U) << "is remembered";
  EXPECT_EQ(arrived(3), 1U) << "the emptiest one";
  EXPECT_EQ(arrived(1), 0U) << "is forgotten: each has one sender now";
  EXPECT_EQ(arrived(0), 0U) << "was never gone";
}

TEST_F(ShardTable, SendersOfAShardThatHasLeftGoToTheOthers) {
  EXPECT_EQ(arrived(0), 0U);
  EXPECT_EQ(arrived(1), 1U);
  table_->leave(0);
  EXPECT_EQ(arrived(0), 2U);
  table_->gone(0, 0);  // of the connection that ended with its shard
  EXPECT_EQ(arrived(0), 2U);
  table_->leave(2);
  EXPECT_EQ(arrived(0), 1U);
  EXPECT_EQ(arrived(7), 1U);
}

}  // namespace
}  // namespace atbus
