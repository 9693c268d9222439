// Connections that have not been confirmed: which of them makes room when there are too many.
#include "channel/stream/newcomers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "atbus/tls.hpp"
#include "plain_socket.h"
#include "unit/channel/connection/connection_fixture.h"
#include "unit/channel/socket_channel/stream_fixture.h"

namespace atbus {
namespace {

using detail::hello;
using test::plain_socket;

// Hosts of this test: all of them are this one.
constexpr const char* honest_host = "127.0.0.2";
constexpr const char* crowded_host = "127.0.0.3";

plain_socket dial_from(const char* host, std::string_view address) {
  return plain_socket::connect(address, std::string{"ipv4://"} + host + ":0");
}

std::string opening() {
  detail::byte_string bytes;
  detail::append(bytes, detail::hello_frame(hello{.wants_checksums = true, .session = 77}));
  return std::string{as_string(bytes)};
}

// Either way in which connections are accepted.
class door {
 public:
  virtual ~door() = default;
  virtual void turn() = 0;
  virtual void wait(std::chrono::nanoseconds longest) = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds longest_sleep() = 0;
  [[nodiscard]] virtual channel_stats stats() = 0;

  std::string address;
  std::vector<std::string> problems;
};

class door_of_receiver final : public door {
 public:
  door_of_receiver(std::uint32_t connections, std::uint32_t unconfirmed,
                   const stranger_limits& limits, std::chrono::nanoseconds confirm_timeout) {
    auto opened = receiver::open("ipv4://127.0.0.1:0", {.spin = 0ns,
                                                        .connections = connections,
                                                        .unconfirmed = unconfirmed,
                                                        .confirm_timeout = confirm_timeout,
                                                        .strangers = limits});
    EXPECT_TRUE(opened) << opened.error().text();
    inbox_ = std::make_unique<receiver>(std::move(*opened));
    inbox_->on_problem([this](const error& what) { problems.push_back(what.text()); });
    address = inbox_->address();
  }
  void wait(std::chrono::nanoseconds longest) override { (void)inbox_->wait(longest); }
  std::chrono::nanoseconds longest_sleep() override { return inbox_->longest_sleep(); }
  void turn() override {
    inbox_->poll([](bytes_view) {});
  }
  channel_stats stats() override { return inbox_->stats(); }

 private:
  std::unique_ptr<receiver> inbox_;
};

class door_of_set final : public door {
 public:
  door_of_set(std::uint32_t connections, std::uint32_t unconfirmed, const stranger_limits& limits,
              std::chrono::nanoseconds confirm_timeout) {
    address = set_.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = confirm_timeout},
                                                 .connections = connections,
                                                 .unconfirmed = unconfirmed,
                                                 .strangers = limits});
    set_.on_problem = [this](const error& what) { problems.push_back(what.text()); };
  }
  void wait(std::chrono::nanoseconds longest) override { (void)set_.set->wait(longest); }
  std::chrono::nanoseconds longest_sleep() override { return set_.set->longest_sleep(); }
  void turn() override { set_.set->poll(); }
  channel_stats stats() override { return set_.set->stats(); }

 private:
  recorded_set set_{{.spin = 0ns}};
};

class Newcomers : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<door> open(std::uint32_t connections, std::uint32_t unconfirmed,
                                    const stranger_limits& limits = {},
                                    std::chrono::nanoseconds confirm_timeout = 30s) {
    if (std::string_view{GetParam()} == "receiver")
      return std::make_unique<door_of_receiver>(connections, unconfirmed, limits, confirm_timeout);
    return std::make_unique<door_of_set>(connections, unconfirmed, limits, confirm_timeout);
  }
  // Until so many have been accepted or turned away.
  static bool until_seen(door& at, std::size_t count) {
    return repeat_until(
        [&] {
          const channel_stats seen = at.stats();
          return seen.connections + seen.unconfirmed_dropped >= count;
        },
        [&] { at.turn(); });
  }
  static bool is_answered(door& at, plain_socket& by) {
    EXPECT_TRUE(by.send(opening()));
    std::string answer;
    return repeat_until(
               [&] {
                 return answer.size() == detail::frame_size(detail::hello_size) ||
                        by.ended() == "end of file" || by.ended() == "reset";
               },
               [&] {
                 at.turn();
                 answer += by.receive_some(100, 1ms);
               }) &&
           !answer.empty();
  }
};

INSTANTIATE_TEST_SUITE_P(Channel, Newcomers, ::testing::Values("receiver", "set"),
                         [](const auto& tested) { return std::string{tested.param}; });

TEST_P(Newcomers, OfOneAddressCrowdNobodyOfAnotherOut) {
  const auto at = open(4096, 8);
  plain_socket honest = dial_from(honest_host, at->address);
  ASSERT_TRUE(until_seen(*at, 1));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i < 400; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    if (i % 2 == 0) {
      ASSERT_TRUE(crowd.back().send("\x28"));  // half of them begin to say something
    }
    if (i % 50 == 49) {
      ASSERT_TRUE(until_seen(*at, i + 2));
    }
  }
  EXPECT_TRUE(is_answered(*at, honest));
  EXPECT_EQ(at->stats().unconfirmed_dropped, 400U - 7U);
  EXPECT_EQ(at->stats().strangers.crowded, 400U - 7U);
}

TEST_P(Newcomers, ThatFillAllPlacesLeaveOneForAnotherAddress) {
  const auto at = open(4, 256);
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.push_back(dial_from(crowded_host, at->address));
  ASSERT_TRUE(until_seen(*at, 4));
  plain_socket honest = dial_from(honest_host, at->address);
  EXPECT_TRUE(is_answered(*at, honest));
}

TEST_P(Newcomers, ThatHaveSaidSomethingOutliveTheSilentOnesOfTheirAddress) {
  const auto at = open(4096, 8);
  plain_socket slow = dial_from(crowded_host, at->address);
  ASSERT_TRUE(slow.send(opening().substr(0, 39)));
  ASSERT_TRUE(until_seen(*at, 1));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i < 100; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    if (i % 50 == 49) {
      ASSERT_TRUE(until_seen(*at, i + 2));
    }
  }
  ASSERT_TRUE(slow.send(opening().substr(39)));
  std::string answer;
  EXPECT_TRUE(repeat_until([&] { return answer.size() == detail::frame_size(detail::hello_size); },
                           [&] {
                             at->turn();
                             answer += slow.receive_some(100, 1ms);
                           }));
}

// Bytes that come in crumbs are no reason to let others wait.
TEST_P(Newcomers, ThatAlwaysHaveSomethingToSayKeepNobodyOut) {
  const auto at = open(4096, 4);
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.push_back(dial_from(crowded_host, at->address));
  ASSERT_TRUE(until_seen(*at, 4));
  plain_socket honest = dial_from(honest_host, at->address);
  for (std::size_t said = 0; said != opening().size() - 1; ++said) {
    for (const plain_socket& one : crowd)
      (void)one.send(opening().substr(said, 1));
    at->turn();
  }
  EXPECT_TRUE(is_answered(*at, honest));
}

TEST_P(Newcomers, OfOneAddressAreLimitedInNumber) {
  const auto at = open(4096, 256, {.per_address = 4});
  plain_socket honest = dial_from(honest_host, at->address);
  ASSERT_TRUE(until_seen(*at, 1));
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 20; ++i)
    crowd.push_back(dial_from(crowded_host, at->address));
  ASSERT_TRUE(until_seen(*at, 21));
  EXPECT_EQ(at->stats().connections, 5U);
  EXPECT_EQ(at->stats().strangers.crowded, 16U);
  ASSERT_EQ(at->problems.size(), 1U) << "one a second";
  EXPECT_NE(at->problems[0].find("per_address"), std::string::npos) << at->problems[0];
  EXPECT_TRUE(is_answered(*at, honest));
}

// Else its neighbours could say a word each, and keep it out for ever.
TEST_P(Newcomers, AreLetInWhereAllOthersOfTheirAddressHaveSpoken) {
  const auto at = open(4096, 256, {.per_address = 4});
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 4; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    ASSERT_TRUE(crowd.back().send("\x28"));
  }
  ASSERT_TRUE(until_seen(*at, 4));
  at->turn();
  plain_socket honest = dial_from(crowded_host, at->address);
  ASSERT_TRUE(until_seen(*at, 5));
  EXPECT_EQ(at->stats().strangers.crowded, 1U);
  EXPECT_EQ(crowd[0].receive_some(), "");
  EXPECT_EQ(crowd[1].receive_some(1, 0ns), "");
  EXPECT_EQ(crowd[1].ended(), "silence");
  EXPECT_TRUE(is_answered(*at, honest));
}

TEST_P(Newcomers, ThatSayNothingGoBeforeThoseThatBeganToSpeak) {
  const auto at = open(4096, 256, {.first_byte_timeout = 100ms});
  plain_socket silent = dial_from(crowded_host, at->address);
  plain_socket slow = dial_from(honest_host, at->address);
  ASSERT_TRUE(slow.send(opening().substr(0, 1)));
  ASSERT_TRUE(until_seen(*at, 2));
  at->turn();
  at->wait(1s);  // its time is up meanwhile
  EXPECT_EQ(at->stats().strangers.silent, 1U);
  at->turn();
  EXPECT_EQ(silent.receive_some(), "");
  EXPECT_EQ(silent.ended(), "end of file");
  ASSERT_EQ(at->problems.size(), 1U);
  EXPECT_NE(at->problems[0].find("first_byte_timeout"), std::string::npos) << at->problems[0];
  ASSERT_TRUE(slow.send(opening().substr(1)));
  std::string answer;
  EXPECT_TRUE(repeat_until([&] { return answer.size() == detail::frame_size(detail::hello_size); },
                           [&] {
                             at->turn();
                             answer += slow.receive_some(100, 1ms);
                           }));
  EXPECT_EQ(at->stats().unconfirmed_dropped, 1U);
}

TEST_P(Newcomers, ThatSayNoHelloInTimeAreCountedAsLate) {
  const auto at = open(4096, 256, {}, 100ms);
  plain_socket slow = dial_from(crowded_host, at->address);
  ASSERT_TRUE(slow.send(opening().substr(0, 1)));
  EXPECT_TRUE(repeat_until([&] { return at->stats().strangers.late == 1; },
                           [&] {
                             at->turn();
                             at->wait(1s);
                           }));
  EXPECT_EQ(slow.receive_some(), "");
  EXPECT_EQ(at->stats().strangers.silent, 0U);
  EXPECT_EQ(at->stats().unconfirmed_dropped, 1U);
  at->turn();
  ASSERT_EQ(at->problems.size(), 1U);
  EXPECT_NE(at->problems[0].find("confirm_timeout"), std::string::npos) << at->problems[0];
}

TEST_P(Newcomers, ThatSendWhatNoPeerSendsAreCountedAsFaulty) {
  const auto at = open(4096, 256);
  plain_socket faulty = dial_from(crowded_host, at->address);
  ASSERT_TRUE(faulty.send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(repeat_until([&] { return at->stats().strangers.faulty == 1; }, [&] { at->turn(); }));
  EXPECT_EQ(faulty.receive_some(), "");
  EXPECT_EQ(at->stats().quarantined, 1U);
  EXPECT_EQ(at->stats().unconfirmed_dropped, 0U);
}

TEST_P(Newcomers, ThatWaitToBeginEndTheSleepOfTheirListener) {
  const auto at = open(4096, 256, {.handshakes_per_second = 1});
  plain_socket first = dial_from(honest_host, at->address);
  ASSERT_TRUE(first.send(opening()));
  plain_socket second = dial_from(honest_host, at->address);
  ASSERT_TRUE(second.send(opening()));
  ASSERT_TRUE(second.send(as_string(detail::data_frame(as_bytes("a message"), true))));
  ASSERT_TRUE(until_seen(*at, 2));
  at->turn();
  ASSERT_EQ(at->stats().strangers.delayed, 1U);
  EXPECT_LE(at->longest_sleep(), 1s);
  const auto begin = now();
  std::string answer;
  EXPECT_TRUE(repeat_until([&] { return !answer.empty(); },
                           [&] {
                             at->wait(30s);
                             at->turn();
                             answer += second.receive_some(100, 1ms);
                           }));
  EXPECT_LT(now() - begin, 9s) << "first_byte_timeout has ended its sleep";
}

TEST_P(Newcomers, BeginSoManyASecondAndNoneIsLost) {
  constexpr std::size_t at_once = 10;
  const auto at = open(4096, 256, {.handshakes_per_second = at_once});
  plain_socket known = dial_from(honest_host, at->address);
  ASSERT_TRUE(is_answered(*at, known));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i != 3 * at_once; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    ASSERT_TRUE(crowd.back().send(opening()));
  }
  const auto begin = now();
  std::vector<std::string> answers(crowd.size());
  const auto answered = [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i != crowd.size(); ++i) {
      answers[i] += crowd[i].receive_some(100, 0ns);
      count += answers[i].empty() ? 0 : 1;
    }
    return count;
  };
  ASSERT_TRUE(until_seen(*at, 1 + crowd.size()));
  EXPECT_TRUE(repeat_until([&] { return answered() == crowd.size(); },
                           [&] {
                             at->turn();
                             at->wait(100ms);
                           }));
  EXPECT_GE(now() - begin, 1900ms);
  EXPECT_GE(at->stats().strangers.delayed, at_once);
  EXPECT_EQ(at->stats().unconfirmed_dropped, 0U);
  ASSERT_FALSE(at->problems.empty());
  EXPECT_NE(at->problems[0].find("handshakes_per_second"), std::string::npos) << at->problems[0];
  EXPECT_LE(at->problems.size(), 16U) << "one a second";
}

// As in a game loop, which polls once in each frame.
TEST_P(Newcomers, WhoSayAByteAtATimeDoNotHoldUpWhatOthersSend) {
  const auto at = open(4096, 1024);
  const std::string hello_bytes = opening();
  plain_socket known = dial_from(honest_host, at->address);
  const int at_once = 1;
  (void)::setsockopt(known.fd(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  ASSERT_TRUE(is_answered(*at, known));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i != 900; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    at->turn();
  }
  ASSERT_TRUE(until_seen(*at, 1 + crowd.size()));
  detail::byte_string message;
  detail::append(message, detail::data_frame(as_bytes("text"), true));
  for (std::size_t said = 0; said != 10; ++said) {
    for (const plain_socket& one : crowd)
      ASSERT_TRUE(one.send(hello_bytes.substr(said, 1)));
    ASSERT_TRUE(known.send(as_string(message)));
    std::size_t frames = 0;
    for (; at->stats().messages <= said && frames != 1000; ++frames) {
      std::this_thread::sleep_for(1ms);
      at->turn();
    }
    EXPECT_LE(frames, 3U) << said;
  }
}

TEST_P(Newcomers, WhoseFirstByteIsUrgentWaitAsOthersDo) {
  const auto at = open(4096, 256, {.handshakes_per_second = 1});
  plain_socket first = dial_from(honest_host, at->address);
  ASSERT_TRUE(first.send(opening()));
  plain_socket urgent = dial_from(crowded_host, at->address);
  ASSERT_EQ(::send(urgent.fd(), "!", 1, MSG_OOB), 1);
  ASSERT_TRUE(urgent.send(opening()));
  ASSERT_TRUE(until_seen(*at, 2));
  at->turn();
  EXPECT_EQ(at->stats().strangers.delayed, 1U);
}

// Their bytes lie in the kernel, and epoll knows it.
TEST_P(Newcomers, ThatWaitToBeginCauseNoSpinning) {
  static int asked = 0;
  static const auto wait = detail::kernel().epoll_wait;
  const auto saved = detail::kernel();
  asked = 0;
  detail::kernel().epoll_wait = [](int epoll, epoll_event* events, int most, std::int64_t timeout) {
    ++asked;
    return wait(epoll, events, most, timeout);
  };
  {
    const auto at = open(4096, 256, {.handshakes_per_second = 1});
    std::vector<plain_socket> crowd;
    for (int i = 0; i != 5; ++i) {
      crowd.push_back(dial_from(crowded_host, at->address));
      ASSERT_TRUE(crowd.back().send(opening()));
    }
    for (const auto end = now() + 300ms; now() < end;) {
      at->turn();
      at->wait(end - now());
    }
    EXPECT_LT(asked, 40);
    EXPECT_EQ(at->stats().strangers.delayed, 4U);
  }
  detail::kernel() = saved;
}

// What its owner does between two reads must not wait for others.
TEST(NewcomersOfNodes, AreHeardOnWhenTheyAreConfirmed) {
  static plain_socket early;
  static std::string words;
  static bool was_called = false;
  static const auto recv = detail::kernel().recv;
  const auto saved = detail::kernel();
  recorded_set inside{{.spin = 0ns}};
  listen_options options;
  options.connection.user_confirms = true;
  options.strangers.handshakes_per_second = 1;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket first = dial_from(honest_host, where);
  ASSERT_TRUE(first.send(opening()));
  ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == 1; }));
  early = dial_from(crowded_host, where);
  words = opening();
  was_called = false;
  // It speaks between the look for its bytes and the read.
  detail::kernel().recv = [](int fd, void* data, std::size_t length, int flags) {
    if (!std::exchange(was_called, true)) {
      EXPECT_TRUE(early.send(words));
      pollfd arrived{.fd = fd, .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&arrived, 1, 10'000), 1);
    }
    return recv(fd, data, length, flags);
  };
  EXPECT_TRUE(turn_until({&inside}, [&] { return inside.opens == 2; }));
  detail::kernel() = saved;
  ASSERT_TRUE(early.send(as_string(detail::data_frame(as_bytes("more"), true))));
  for (int i = 0; i != 10; ++i)
    inside.set->poll();
  EXPECT_TRUE(inside.last.confirm());
  EXPECT_TRUE(turn_until({&inside}, [&] { return inside.messages.size() == 1; }));
  early.close();
}

// Frames of types that this version does not know may be left out without end.
TEST(NewcomersOfNodes, ThatSayTooMuchAreClosed) {
  recorded_set inside;
  listen_options options;
  options.connection.user_confirms = true;
  options.connection.unconfirmed_message_limit = 1000;
  options.strangers.bytes = 10'000;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket stranger = dial_from(crowded_host, where);
  ASSERT_TRUE(stranger.send(opening()));
  std::array<std::byte, 100> unknown{};
  unknown[0] = std::byte{0x01};
  unknown[1] = std::byte{0x80};
  const detail::byte_string frame = detail::raw_control_frame(unknown, true);
  std::size_t sent = 0;
  const auto deadline = now() + 20s;
  while (inside.closes == 0 && now() < deadline && stranger.send(as_string(frame), 1s)) {
    sent += frame.size();
    inside.set->poll();
  }
  (void)turn_until({&inside}, [&] { return inside.closes == 1 || now() > deadline; });
  ASSERT_EQ(inside.closes, 1);
  EXPECT_EQ(inside.whys[0], errc::protocol_error);
  EXPECT_GT(sent, 10'000U);
  EXPECT_EQ(inside.set->stats().strangers.talkative, 1U);
  ASSERT_EQ(inside.problems.size(), 1U);
  EXPECT_NE(inside.problems[0].text().find("bytes"), std::string::npos);
}

// A TLS record that is announced with 16 KiB, in parts.
TEST(NewcomersOfReceivers, ThatSayTooMuchAreClosed) {
  auto inbox = receiver::open(
      "ipv4://127.0.0.1:0",
      {.socket = {.tls = *tls_credentials::from_token("a secret of sixteen or more bytes")},
       .strangers = {.bytes = 1000}});
  ASSERT_TRUE(inbox) << inbox.error().text();
  std::vector<std::string> problems;
  inbox->on_problem([&](const error& what) { problems.push_back(what.text()); });
  plain_socket stranger = dial_from(crowded_host, inbox->address());
  ASSERT_TRUE(stranger.send(std::string("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9)));
  std::size_t sent = 0;
  EXPECT_TRUE(repeat_until([&] { return inbox->stats().strangers.talkative == 1; },
                           [&] {
                             sent +=
                                 sent < 10'000 && stranger.send(std::string(100, 'x')) ? 100 : 0;
                             inbox->poll([](bytes_view) {});
                           }));
  EXPECT_GT(sent, 1000U);
  EXPECT_EQ(inbox->stats().unconfirmed_dropped, 1U);
  EXPECT_EQ(inbox->stats().tls_failed, 0U);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("stranger_limits::bytes"), std::string::npos) << problems[0];
}

TEST(NewcomersOfNodes, ThatAreConfirmedMaySayAsMuchAsTheyLike) {
  recorded_set inside;
  listen_options options;
  options.connection.user_confirms = true;
  options.strangers.bytes = 100;
  inside.on_open = [](connection c) { EXPECT_TRUE(c.confirm()); };
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket known = dial_from(honest_host, where);
  ASSERT_TRUE(known.send(opening()));
  ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == 1; }));
  const std::string message(60'000, 'x');
  for (int i = 0; i != 5; ++i) {
    ASSERT_TRUE(known.send(as_string(detail::data_frame(as_bytes(message), true))));
    ASSERT_TRUE(
        turn_until({&inside}, [&] { return inside.messages.size() == std::size_t(i) + 1; }));
  }
  EXPECT_EQ(inside.closes, 0);
}

TEST(NewcomersOfNodes, ThatSaidHelloKeepTheirPlaceBesideACrowdThatDidToo) {
  recorded_set inside;
  listen_options options;
  options.connection.user_confirms = true;
  options.unconfirmed = 8;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket honest = dial_from(honest_host, where);
  ASSERT_TRUE(honest.send(opening()));
  ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == 1; }));
  const connection of_honest = inside.last;
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(dial_from(crowded_host, where));
    ASSERT_TRUE(crowd.back().send(opening()));
    if (i % 50 == 49) {
      ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == i + 2; }));
    }
  }
  EXPECT_TRUE(of_honest.is_open());
  EXPECT_EQ(inside.set->stats().unconfirmed_dropped, 200U - 7U);
}

TEST(NewcomersOfManyAddresses, LoseTheOneThatIsThereForLongest) {
  recorded_set inside;
  listen_options options;
  options.unconfirmed = 3;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  std::vector<plain_socket> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(dial_from(("127.0.1." + std::to_string(i + 1)).c_str(), where));
    ASSERT_TRUE(turn_until({&inside}, [&] {
      const auto seen = inside.set->stats();
      return seen.connections + seen.unconfirmed_dropped == static_cast<std::size_t>(i) + 1;
    }));
  }
  EXPECT_EQ(all[0].receive_some(), "");
  EXPECT_EQ(all[0].ended(), "end of file");
  EXPECT_EQ(all[1].receive_some(1, 0ns), "");
  EXPECT_EQ(all[1].ended(), "silence");
}

}  // namespace
}  // namespace atbus
