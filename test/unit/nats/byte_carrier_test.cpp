// One link through a wire that loses, repeats, swaps, changes and makes up messages.
#include "nats/byte_carrier.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <deque>
#include <string>

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t usual_payload = 1024 * 1024;

std::string inbox_of(int end) {
  return "_INBOX.atbus.00112233445566778899aabbccddeeff.000000000000000" + std::to_string(end);
}

// One end: the socket of a node, the carrier, and what that has published.
struct carrier_end : carrier_outlet {
  explicit carrier_end(int number, std::chrono::nanoseconds time) : inbox{inbox_of(number)} {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    node = file{ends[0]};
    carrier.emplace(*this, file{ends[1]}, inbox, time);
  }
  bool publish(const std::string& subject, const std::string& reply, bytes_view message) override {
    EXPECT_EQ(reply, inbox);
    sent_to = subject;
    EXPECT_LE(message.size(), payload);
    if (!refuses)
      out.emplace_back(message.begin(), message.end());
    return !refuses;
  }
  [[nodiscard]] std::size_t message_limit() const override { return payload; }

  void put(std::string_view text) const {
    ASSERT_EQ(::send(node.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // What the node's end has got; `at_end` is set at the end of the stream.
  std::string got() {
    std::string all;
    char bytes[4096];
    ssize_t n = 0;
    while ((n = ::recv(node.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
      all.append(bytes, static_cast<std::size_t>(n));
    at_end = n == 0;
    return all;
  }
  // As epoll says.
  void work(std::chrono::nanoseconds time) {
    const auto interest = carrier->interest();
    if (!interest || carrier->ended())
      return;
    pollfd at{.fd = carrier->descriptor(), .events = static_cast<short>(*interest), .revents = 0};
    if (::poll(&at, 1, 0) == 1)
      carrier->ready(static_cast<std::uint32_t>(at.revents), time);
  }

  std::string inbox;
  std::string sent_to;
  file node;
  std::size_t payload = usual_payload;
  bool refuses = false;
  bool at_end = false;
  std::deque<byte_buffer> out;
  std::optional<byte_carrier> carrier;
};

class ByteCarrier : public ::testing::Test {
 protected:
  ByteCarrier() { open(); }

  void open() {
    dialler.carrier->dial("fleet.east", time);
    ASSERT_EQ(dialler.sent_to, "fleet.east");
    const byte_buffer asked = dialler.out.front();
    dialler.out.clear();
    const auto frame = read_frame(asked);
    ASSERT_TRUE(frame);
    listener.carrier->answer(*frame, time);
    ASSERT_EQ(listener.sent_to, dialler.inbox);
    ASSERT_TRUE(dialler.carrier->is_opening());
    pass(listener, dialler);
    ASSERT_FALSE(dialler.carrier->is_opening());
  }
  // Whether the message was one of the other end's.
  bool give(const byte_buffer& message, carrier_end& to) { return to.carrier->take(message, time); }
  void pass(carrier_end& from, carrier_end& to) {
    while (!from.out.empty()) {
      const byte_buffer message = from.out.front();
      from.out.pop_front();
      EXPECT_TRUE(give(message, to) || to.carrier->ended());
    }
  }
  void turn() {
    for (carrier_end* const end : {&dialler, &listener})
      end->work(time);
    pass(dialler, listener);
    pass(listener, dialler);
  }
  void turns(int count = 20) {
    for (int i = 0; i != count; ++i)
      turn();
  }
  // The next messages of the dialling end, one for each letter.
  std::vector<byte_buffer> messages_of(std::string_view letters) {
    std::vector<byte_buffer> all;
    for (const char letter : letters) {
      dialler.put(std::string(1, letter));
      dialler.work(time);
      all.insert(all.end(), dialler.out.begin(), dialler.out.end());
      dialler.out.clear();
    }
    return all;
  }
  void pass_time(std::chrono::nanoseconds much) {
    time += much;
    dialler.carrier->look_at_clock(time);
    listener.carrier->look_at_clock(time);
  }

  std::chrono::nanoseconds time{1000s};
  carrier_end dialler{1, time};
  carrier_end listener{2, time};
};

TEST_F(ByteCarrier, CarriesBytesBothWays) {
  dialler.put("question");
  listener.put("something else");
  turns();
  EXPECT_EQ(listener.got(), "question");
  EXPECT_EQ(dialler.got(), "something else");
}

TEST_F(ByteCarrier, DialsNoMoreOnceItIsOpen) {
  for (carrier_end* const end : {&dialler, &listener}) {
    end->sent_to.clear();
    end->carrier->dial("fleet.west", time);
    EXPECT_EQ(end->sent_to, "");
  }
  dialler.put("question");
  listener.put("something else");
  turns();
  EXPECT_EQ(listener.got(), "question");
  EXPECT_EQ(dialler.got(), "something else");
}

TEST_F(ByteCarrier, EndsWithoutAGapWhicheverMessageIsLost) {
  for (std::size_t lost = 0; lost != 4; ++lost) {
    carrier_end first{1, time};
    carrier_end second{2, time};
    first.carrier->dial("x", time);
    const byte_buffer opening = first.out.front();
    second.carrier->answer(*read_frame(opening), time);
    first.out.clear();
    pass(second, first);
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      first.put(std::string(1, letter));
      first.work(time);
    }
    for (std::size_t i = 0; i != 4; ++i) {
      if (i != lost)
        (void)give(first.out[i], second);
    }
    EXPECT_EQ(second.got(), std::string{"abcd"}.substr(0, lost));
    EXPECT_EQ(second.carrier->ended(), lost != 3);
    first.carrier->look_at_clock(time + 1s);  // the sign of life shows that the last one is lost
    (void)give(first.out.back(), second);
    EXPECT_TRUE(second.carrier->ended());
    EXPECT_EQ(second.carrier->why(), errc::peer_closed);
    EXPECT_EQ(second.got(), "");
  }
}

TEST_F(ByteCarrier, TakesARepeatedMessageOnce) {
  const auto all = messages_of("abc");
  EXPECT_TRUE(give(all[0], listener));
  EXPECT_FALSE(give(all[0], listener));
  EXPECT_TRUE(give(all[1], listener));
  EXPECT_FALSE(give(all[0], listener));
  EXPECT_TRUE(give(all[2], listener));
  EXPECT_FALSE(listener.carrier->ended());
  EXPECT_EQ(listener.got(), "abc");
}

TEST_F(ByteCarrier, EndsWhenMessagesChangePlaces) {
  const auto all = messages_of("abc");
  EXPECT_TRUE(give(all[0], listener));
  (void)give(all[2], listener);
  (void)give(all[1], listener);
  EXPECT_EQ(listener.got(), "a");
  EXPECT_EQ(listener.carrier->why(), errc::peer_closed);
}

TEST_F(ByteCarrier, IgnoresAMessageWithAnyByteChangedOrCutOff) {
  const auto all = messages_of("a");
  for (std::size_t at = 0; at != all[0].size(); ++at) {
    byte_buffer changed = all[0];
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(give(changed, listener)) << at;
    EXPECT_FALSE(give(byte_buffer{all[0].begin(), all[0].begin() + static_cast<std::ptrdiff_t>(at)},
                      listener))
        << at;
  }
  EXPECT_EQ(listener.got(), "");
  EXPECT_TRUE(give(all[0], listener));
  EXPECT_EQ(listener.got(), "a");
}

TEST_F(ByteCarrier, IgnoresItsOwnMessages) {
  const auto all = messages_of("ab");  // the second has the number that the dialling end waits for
  EXPECT_FALSE(give(all[1], dialler));
  EXPECT_FALSE(dialler.carrier->ended());
}

TEST_F(ByteCarrier, IgnoresAnAnswerThatWasNotMadeForIt) {
  carrier_end other{1, time};
  other.carrier->dial("fleet.east", time);
  carrier_end third{2, time};
  third.carrier->answer(*read_frame(other.out.front()), time);
  carrier_end mine{1, time};
  mine.carrier->dial("fleet.east", time);
  EXPECT_FALSE(give(third.out.front(), mine));
  EXPECT_TRUE(mine.carrier->is_opening());
  EXPECT_TRUE(give(third.out.front(), other));
}

TEST_F(ByteCarrier, HoldsNoMoreThanTheWindowOfAReaderThatDoesNotRead) {
  const std::string much(64 * 1024, 'm');
  std::size_t taken = 0;
  const auto fill = [&] {
    for (int i = 0; i != 200; ++i) {
      const ssize_t n = ::send(dialler.node.get(), much.data(), much.size(), MSG_NOSIGNAL);
      taken += n > 0 ? static_cast<std::size_t>(n) : 0;
      turn();
      pass_time(100ms);
      ASSERT_LE(listener.carrier->waiting(), byte_carrier::window_max);
    }
  };
  fill();
  const std::size_t before = taken;
  fill();
  EXPECT_EQ(taken, before);  // the writer has to wait
  std::size_t got = 0;
  for (int i = 0; i != 1000; ++i) {
    got += listener.got().size();
    turn();
  }
  EXPECT_EQ(got, taken);
  EXPECT_FALSE(listener.carrier->ended());
}

TEST_F(ByteCarrier, SendsWhatWasWrittenBeforeTheNodeClosed) {
  const std::string much(byte_carrier::window_min, 'm');
  dialler.put(much);
  dialler.put(much);
  dialler.work(time);  // fills the window
  dialler.node.reset();
  turns();
  EXPECT_EQ(listener.got().size(), 2 * much.size());
  EXPECT_TRUE(listener.at_end);
}

TEST_F(ByteCarrier, ClosesOneDirectionAtATime) {
  dialler.put("last");
  ::shutdown(dialler.node.get(), SHUT_WR);
  turns();
  EXPECT_EQ(listener.got(), "last");
  EXPECT_TRUE(listener.at_end);
  listener.put("answer");
  turns();
  EXPECT_EQ(dialler.got(), "answer");
  listener.node.reset();
  turns();
  EXPECT_TRUE(dialler.carrier->ended());
  EXPECT_TRUE(dialler.carrier->why()) << dialler.carrier->why().text();
  EXPECT_TRUE(listener.carrier->ended());
}

TEST_F(ByteCarrier, EndsWhenTheOtherEndIsSilent) {
  for (int i = 0; i != 20; ++i) {
    pass_time(1s);
    turns(1);
  }
  EXPECT_FALSE(dialler.carrier->ended());
  for (int i = 0; i != 7; ++i) {
    pass_time(1s);
    dialler.out.clear();
  }
  EXPECT_EQ(listener.carrier->why(), errc::timed_out);
}

TEST_F(ByteCarrier, BelievesTheServerOnlyWhileTheOtherEndIsSilent) {
  for (int i = 0; i != 10; ++i) {
    listener.carrier->unheard(time);
    pass_time(1s);
    turns(1);
  }
  EXPECT_FALSE(listener.carrier->ended());
  listener.carrier->unheard(time);
  time += byte_carrier::silence_max_unheard;
  listener.carrier->look_at_clock(time);
  EXPECT_TRUE(listener.carrier->ended());
}

TEST_F(ByteCarrier, EndsAtOnceWhenNobodyListens) {
  carrier_end mine{1, time};
  mine.carrier->dial("nowhere", time);
  mine.carrier->unheard(time);
  EXPECT_EQ(mine.carrier->why(), errc::not_found);
}

TEST_F(ByteCarrier, FitsItsMessagesIntoWhatTheServerTakes) {
  dialler.payload = 2000;
  const std::string much(50'000, 'm');
  dialler.put(much);
  turns(100);
  EXPECT_EQ(listener.got(), much);
}

TEST_F(ByteCarrier, EndsWithAServerThatTakesTooLittle) {
  dialler.payload = 1000;
  dialler.put("a");
  turns(1);
  EXPECT_EQ(dialler.carrier->why(), errc::message_too_large);
}

TEST_F(ByteCarrier, EndsWhenAMessageDoesNotLeave) {
  dialler.refuses = true;
  dialler.put("a");
  turns(1);
  EXPECT_EQ(dialler.carrier->why(), errc::peer_closed);
}

}  // namespace
}  // namespace atbus::detail
