#include "atbus/channel/connection.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <thread>

#include "channel/opening.h"
#include "connection_fixture.h"
#include "plain_socket.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using test::plain_listener;
using test::plain_socket;

// The message with a number, of a length that follows from it.
std::string numbered(std::size_t number) {
  return std::to_string(number) + ":" +
         std::string((number * 37) % 700, static_cast<char>('a' + number % 26));
}

class Connection : public testing::TestWithParam<const char*> {
 protected:
  ~Connection() override { detail::kernel() = saved_; }

  static std::string any_address() {
    return std::string{GetParam()} == "unix" ? fresh_unix_address() : GetParam();
  }
  // Opens one connection from `b` to `a`.
  void join(const connect_options& options = {}, const listen_options& of_listener = {}) {
    where = a.listen(any_address(), of_listener);
    out = b.connect(where, options);
    ASSERT_TRUE(until([&] { return a.opens == 1 && b.opens == 1; }));
    in = a.last;
  }
  bool until(const std::function<bool()>& done) { return turn_until({&a, &b}, done); }
  // Queues as many numbered messages as there is room for; returns the next number.
  static std::size_t fill(connection to, std::size_t from = 0) {
    while (to.send(as_bytes(numbered(from))))
      ++from;
    return from;
  }
  // The same until the kernel takes no more.
  static std::size_t stuff(connection to) {
    std::size_t count = 0;
    for (std::size_t before = 1; before != count;) {
      before = count;
      count = fill(to, count);
      (void)to.flush();
    }
    return count;
  }
  static std::vector<std::string> numbered_range(std::size_t from, std::size_t to) {
    std::vector<std::string> all;
    for (; from != to; ++from)
      all.push_back(numbered(from));
    return all;
  }

  recorded_set a;
  recorded_set b;
  std::string where;
  connection in;
  connection out;
  detail::kernel_calls saved_ = detail::kernel();
};

INSTANTIATE_TEST_SUITE_P(Socket, Connection,
                         testing::Values("unix", "ipv4://127.0.0.1:0", "ipv6://[::1]:0"),
                         [](const auto& tested) { return std::string{tested.param}.substr(0, 4); });

// Where the kind of socket makes no difference.
class ConnectionLife : public testing::Test {
 protected:
  ~ConnectionLife() override { detail::kernel() = saved_; }
  bool until(const std::function<bool()>& done) { return turn_until({&a, &b}, done); }
  void join(const connect_options& options = {}, const listen_options& of_listener = {}) {
    where = a.listen(fresh_unix_address(), of_listener);
    out = b.connect(where, options);
    ASSERT_TRUE(until([&] { return a.opens == 1 && b.opens == 1; }));
    in = a.last;
  }
  static std::size_t fill(connection to) {
    std::size_t number = 0;
    while (to.send(as_bytes(numbered(number))))
      ++number;
    return number;
  }

  recorded_set a;
  recorded_set b;
  std::string where;
  connection in;
  connection out;
  detail::kernel_calls saved_ = detail::kernel();
};

// --- messages

TEST_P(Connection, CarriesMessagesBothWays) {
  join();
  EXPECT_TRUE(out.send(as_bytes("there")));
  EXPECT_TRUE(in.send({as_bytes("and"), as_bytes(""), as_bytes(" back")}));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1 && b.messages.size() == 1; }));
  EXPECT_EQ(a.messages.front(), "there");
  EXPECT_EQ(b.messages.front(), "and back");
  EXPECT_EQ(out.state(), connection_state::open);
  EXPECT_EQ(out.peer(), where);
  EXPECT_EQ(in.listener(), where);
  EXPECT_EQ(out.listener(), "");
  EXPECT_NE(in.peer(), "");
  EXPECT_NE(in.id(), out.id());
}

TEST_P(Connection, SendsWhatWasAcceptedBeforeItWasConnected) {
  where = a.listen(any_address());
  out = b.connect(where);
  EXPECT_NE(out.state(), connection_state::open);
  EXPECT_TRUE(out.send(as_bytes("first")));
  auto slot = out.claim(10);
  ASSERT_TRUE(slot);
  std::copy_n(as_bytes("second").begin(), 6, slot.bytes().begin());
  EXPECT_TRUE(slot.commit(6));
  EXPECT_TRUE(until([&] { return a.messages.size() == 2; }));
  EXPECT_EQ(a.messages, (std::vector<std::string>{"first", "second"}));
}

TEST_P(Connection, GoesOnWhenBothEndsSendIntoFullQueues) {
  for (const auto kind : {send_buffer_kind::growing, send_buffer_kind::fixed}) {
    constexpr std::size_t count = 20'000;
    recorded_set one;
    recorded_set other;
    const connection_options small{
        .socket = {.checksums = {}, .send_buffer = 16 * 1024, .receive_buffer = 16 * 1024},
        .message_limit = 4096,
        .buffer = kind,
        .send_buffer_size = 32 * 1024,
        .send_buffer_number = 256};
    std::size_t refused = 0;
    std::size_t sent[2] = {};
    const auto pump = [&](connection to, std::size_t& next) {
      while (next != count) {
        const status s = to.send(as_bytes(numbered(next)));
        if (!s) {
          EXPECT_EQ(s, errc::would_block);
          ++refused;
          return;
        }
        ++next;
      }
    };
    one.on_open = one.on_writable = [&](connection c) { pump(c, sent[0]); };
    other.on_open = other.on_writable = [&](connection c) { pump(c, sent[1]); };
    other.connect(one.listen(any_address(), {.connection = small}), {.connection = small});
    ASSERT_TRUE(
        turn_until({&one, &other},
                   [&] { return one.messages.size() == count && other.messages.size() == count; }))
        << one.messages.size() << " " << other.messages.size();
    EXPECT_TRUE(one.messages == numbered_range(0, count));
    EXPECT_TRUE(other.messages == numbered_range(0, count));
    EXPECT_GT(refused, 2U);
    EXPECT_GT(one.writable, 0);
    EXPECT_EQ(one.closes + other.closes, 0);
  }
}

TEST_P(Connection, LivesWithTwoHundredOthersInOneSet) {
  constexpr std::size_t count = 200;
  where = a.listen(any_address());
  std::vector<connection> all;
  for (std::size_t i = 0; i != count; ++i) {
    all.push_back(a.connect(where));
    EXPECT_TRUE(all.back().send(as_bytes("x")));
  }
  // Each answers ten times: 200 dialled, 200 accepted.
  std::size_t answers = 0;
  a.on_message = [&](connection c, bytes_view m) {
    if (m.size() < 10)
      EXPECT_TRUE(c.send(as_bytes(std::string(m.size() + 1, 'x'))));
    else
      ++answers;
  };
  ASSERT_TRUE(until([&] { return answers == count; })) << answers;
  EXPECT_EQ(a.messages.size(), 10 * count);
  EXPECT_EQ(a.opens, static_cast<int>(2 * count));
  EXPECT_EQ(a.set->size(), 2 * count);
  EXPECT_EQ(a.set->stats().connections, 2 * count);
  for (const connection c : all)
    EXPECT_TRUE(c.close());
  ASSERT_TRUE(until([&] { return a.closes == static_cast<int>(2 * count); })) << a.closes;
  EXPECT_EQ(a.set->size(), 0U);
  EXPECT_EQ(a.set->longest_sleep(), -1ns);
}

TEST_P(Connection, DeliversAllThatWasAcceptedBeforeAGracefulClose) {
  where = a.listen(any_address());
  // At once, before anything is connected.
  out = b.connect(where);
  std::size_t count = fill(out);
  EXPECT_GT(count, 1000U);
  EXPECT_TRUE(out.close(30s));
  EXPECT_EQ(out.state(), connection_state::closing);
  EXPECT_EQ(out.send(as_bytes("too late")), errc::closed);
  ASSERT_TRUE(until([&] { return a.closes == 1 && b.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, count));
  EXPECT_TRUE(b.whys.front()) << b.whys.front().text();
  EXPECT_EQ(a.whys.front(), errc::peer_closed);
  EXPECT_EQ(out.state(), connection_state::closed);
}

TEST_P(Connection, ReceivesTheOtherHalfWhileItCloses) {
  join();
  std::size_t of_out = fill(out);
  std::size_t of_in = fill(in);
  EXPECT_TRUE(out.close(30s));
  ASSERT_TRUE(until([&] { return a.closes == 1 && b.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, of_out));
  EXPECT_TRUE(b.messages == numbered_range(0, of_in));
  EXPECT_TRUE(b.whys.front()) << b.whys.front().text();
  EXPECT_EQ(a.whys.front(), errc::peer_closed);
  EXPECT_EQ(b.events, (std::vector<std::string>{"open", "close ok"}));
}

TEST_P(Connection, ClosesFromBothEndsAtOnce) {
  join();
  const std::size_t count = fill(out);
  const std::size_t back = fill(in);
  EXPECT_TRUE(out.close(30s));
  EXPECT_TRUE(in.close(30s));
  ASSERT_TRUE(until([&] { return a.closes == 1 && b.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, count));
  EXPECT_TRUE(b.messages == numbered_range(0, back));
  EXPECT_TRUE(a.whys.front()) << a.whys.front().text();
  EXPECT_TRUE(b.whys.front()) << b.whys.front().text();
}

TEST_P(Connection, SaysAfterAnAbortWhatWasNotWritten) {
  join();
  EXPECT_TRUE(in.pause());
  const std::size_t accepted = stuff(out);
  std::vector<std::string> unsent;
  b.on_close = [&](connection c, const error&) {
    EXPECT_EQ(c.send(as_bytes("no")), errc::closed);
    c.unsent([&](bytes_view m) { unsent.emplace_back(as_text(m)); });
  };
  EXPECT_TRUE(out.abort());
  EXPECT_EQ(out.state(), connection_state::closed);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.front(), errc::closed);
  EXPECT_NE(b.whys.front().text().find(std::to_string(unsent.size()) + " messages"),
            std::string::npos)
      << b.whys.front().text();
  ASSERT_GT(unsent.size(), 1U);
  EXPECT_EQ(unsent, numbered_range(accepted - unsent.size(), accepted));
  EXPECT_EQ(out.unsent({}), 0U);
  // What was written arrives: nothing lies unread on our side that would make it a reset.
  EXPECT_TRUE(in.resume());
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, accepted - unsent.size()));
  EXPECT_EQ(a.whys.front(), errc::peer_closed);
}

TEST_P(Connection, StopsReadingWhilePausedAndWakesNobody) {
  join();
  EXPECT_TRUE(in.pause());
  const std::size_t count = fill(out);
  EXPECT_TRUE(turn_until({&b}, [&] { return b.set->prepare_sleep(); }));
  a.set->poll();
  EXPECT_TRUE(a.messages.empty());
  EXPECT_TRUE(a.set->prepare_sleep());
  pollfd asked{.fd = a.set->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
  // Nor does the other end's end, which would be readable for ever.
  EXPECT_TRUE(out.abort());
  EXPECT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  a.set->poll();
  EXPECT_TRUE(a.set->prepare_sleep());
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
  EXPECT_EQ(a.closes, 0);
  EXPECT_TRUE(in.resume());
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, a.messages.size()));
  EXPECT_LE(a.messages.size(), count);
}

TEST_P(Connection, PausesInTheMiddleOfWhatWasRead) {
  join();
  a.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.pause()); };
  for (std::size_t i = 0; i != 10; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  for (std::size_t i = 1; i <= 10; ++i) {
    ASSERT_TRUE(until([&] { return a.messages.size() == i; }));
    for (int turns = 0; turns != 3; ++turns)
      a.set->poll();
    EXPECT_EQ(a.messages.size(), i);
    EXPECT_TRUE(in.resume());
  }
  EXPECT_TRUE(a.messages == numbered_range(0, 10));
}

TEST_P(Connection, ResendsExactlyWhatWasNotReleasedOnANewConnection) {
  join({.connection = {.release = release_policy::by_user}, .reconnect_min = 1ms});
  for (std::size_t i = 0; i != 10; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  ASSERT_TRUE(until([&] { return a.messages.size() == 10; }));
  EXPECT_EQ(out.unsent({}), 0U);
  EXPECT_EQ(out.release(4), 4U);
  EXPECT_EQ(out.unreleased([](bytes_view, bool written) { EXPECT_TRUE(written); }), 6U);
  a.messages.clear();
  EXPECT_TRUE(in.abort());
  ASSERT_TRUE(until([&] { return a.messages.size() == 6; }));
  EXPECT_TRUE(a.messages == numbered_range(4, 10));
  EXPECT_EQ(b.opens, 2);
  EXPECT_EQ(b.closes, 0);
  EXPECT_EQ(b.set->stats().reconnects, 1U);
  // What the other end says it has need not be written again.
  EXPECT_TRUE(out.send(as_bytes(numbered(10))));
  EXPECT_TRUE(until([&] { return a.messages.size() == 7; }));
  EXPECT_EQ(out.release(100), 7U);
  EXPECT_EQ(out.queued(), 0U);
  a.messages.clear();
  EXPECT_TRUE(a.last.abort());
  ASSERT_TRUE(until([&] { return b.opens == 3; }));
  EXPECT_TRUE(out.send(as_bytes("new")));
  ASSERT_TRUE(until([&] { return !a.messages.empty(); }));
  EXPECT_EQ(a.messages, std::vector<std::string>{"new"});
}

TEST_P(Connection, ResendsOnTheSameConnectionAlsoBehindABegunMessage) {
  const connection_options by_user{
      .socket = {.checksums = {}, .send_buffer = 8192, .receive_buffer = 8192},
      .release = release_policy::by_user};
  join({.connection = by_user}, {.connection = by_user});
  EXPECT_TRUE(in.pause());
  const std::size_t count = stuff(out);
  ASSERT_GT(out.unsent({}), 0U);
  EXPECT_EQ(out.release(1), 1U);
  EXPECT_TRUE(out.resend());
  EXPECT_TRUE(in.resume());
  ASSERT_TRUE(until(
      [&] { return a.messages.size() >= count && a.messages.back() == numbered(count - 1); }));
  // A beginning, whole messages; then all but the released one.
  EXPECT_EQ(a.closes, 0);
  const std::size_t before = a.messages.size() - (count - 1);
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, count);
  auto expected = numbered_range(0, before);
  for (const std::string& again : numbered_range(1, count))
    expected.push_back(again);
  EXPECT_TRUE(a.messages == expected);
}

TEST_P(Connection, DoesNotTearTheMessageThatIsBegunWhenItIsReleased) {
  const connection_options by_user{
      .socket = {.checksums = {}, .send_buffer = 8192, .receive_buffer = 8192},
      .release = release_policy::by_user};
  join({.connection = by_user}, {.connection = by_user});
  EXPECT_TRUE(in.pause());
  const std::size_t count = stuff(out);
  ASSERT_GT(out.unsent({}), 10U);
  // All but the last three, although many of them were never written.
  EXPECT_EQ(out.release(count - 3), count - 3);
  EXPECT_EQ(out.unreleased({}), 3U);
  EXPECT_TRUE(in.resume());
  ASSERT_TRUE(
      until([&] { return !a.messages.empty() && a.messages.back() == numbered(count - 1); }));
  EXPECT_EQ(a.closes, 0);
  EXPECT_LT(a.messages.size(), count);
  auto expected = numbered_range(0, a.messages.size() - 3);
  for (const std::string& last : numbered_range(count - 3, count))
    expected.push_back(last);
  EXPECT_TRUE(a.messages == expected);
  EXPECT_EQ(out.unreleased({}), 3U);
}

// --- life, state by state

TEST_F(ConnectionLife, ResolvingEndsAtOnceWhenItIsClosed) {
  for (const bool gracefully : {true, false}) {
    out = b.connect("dns://localhost:9");
    EXPECT_EQ(out.state(), connection_state::resolving);
    EXPECT_TRUE(gracefully ? out.close() : out.abort());
    EXPECT_EQ(out.state(), connection_state::closed);
    EXPECT_TRUE(until([&] { return b.closes == 1; }));
    EXPECT_EQ(b.whys.back().code(), gracefully ? errc::ok : errc::closed);
    b.closes = 0;
  }
}

TEST_F(ConnectionLife, ResolvesANameAndTriesItsAddresses) {
  where = a.listen("ipv4://127.0.0.1:0");
  out = b.connect("dns://localhost" + where.substr(where.rfind(':')));
  EXPECT_TRUE(out.send(as_bytes("by name")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(out.state(), connection_state::open);
}

TEST_F(ConnectionLife, RefusedMeansClosedWithTheReasonAndTheMessages) {
  out = b.connect(fresh_unix_address());
  EXPECT_EQ(out.send(as_bytes("x")), errc::closed);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::not_found);

  std::string nobody;
  {
    recorded_set gone;
    nobody = gone.listen("ipv4://127.0.0.1:0");
  }
  out = b.connect(nobody);
  EXPECT_EQ(out.state(), connection_state::connecting);
  EXPECT_TRUE(out.send(as_bytes("never sent")));
  std::string unsent;
  b.on_close = [&](connection c, const error&) {
    EXPECT_EQ(c.unsent([&](bytes_view m) { unsent = as_text(m); }), 1U);
  };
  ASSERT_TRUE(until([&] { return b.closes == 2; }));
  EXPECT_EQ(b.whys.back(), errc::not_found);
  EXPECT_EQ(unsent, "never sent");
}

// A listener whose backlog is full: dialling it takes as long as the kernel has patience.
class full_backlog {
 public:
  full_backlog() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto at = test::socket_address::parse("ipv4://127.0.0.1:0");
    EXPECT_EQ(::bind(fd_.fd(), at.get(), at.size), 0);
    EXPECT_EQ(::listen(fd_.fd(), 0), 0);
    address_ = test::socket_address::bound(fd_.fd()).text();
    const auto to = test::socket_address::parse(address_);
    for (int i = 0; i < 4; ++i) {
      fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(fillers_.back().fd(), to.get(), to.size);
    }
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  plain_socket fd_;
  std::string address_;
  std::vector<plain_socket> fillers_;
};

TEST_F(ConnectionLife, ConnectingEndsWithItsTimeout) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 20ms});
  EXPECT_EQ(out.state(), connection_state::connecting);
  EXPECT_GE(b.set->longest_sleep(), 0ns);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLife, ConnectingEndsWhenItIsAborted) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 0s});
  EXPECT_EQ(b.set->longest_sleep(), -1ns);
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.abort());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::closed);
}

TEST_F(ConnectionLife, ConnectingClosedWithMessagesLingers) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 0s});
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.close(1h));
  EXPECT_EQ(out.state(), connection_state::closing);
  EXPECT_TRUE(out.close(10ms));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLife, OpeningEndsWithTheConfirmTimeoutOfWhoDials) {
  const plain_listener mute{"ipv4://127.0.0.1:0"};
  out = b.connect(mute.address(), {.connection = {.confirm_timeout = 20ms}});
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
  EXPECT_EQ(b.opens, 0);
}

TEST_F(ConnectionLife, OpeningEndsWhenTheOtherEndSpeaksAnotherProtocol) {
  const plain_listener other{"ipv4://127.0.0.1:0"};
  out = b.connect(other.address());
  ASSERT_TRUE(until([&] { return out.state() == connection_state::opening; }));
  const plain_socket peer = other.accept();
  EXPECT_TRUE(peer.send("220 smtp.example ESMTP ready and willing to talk\r\n"));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::protocol_error);
}

TEST_F(ConnectionLife, OpeningClosedWaitsForTheOtherEnd) {
  const plain_listener mute{"ipv4://127.0.0.1:0"};
  out = b.connect(mute.address());
  EXPECT_TRUE(out.send(as_bytes("x")));
  ASSERT_TRUE(until([&] { return out.state() == connection_state::opening; }));
  EXPECT_TRUE(out.close(1h));
  EXPECT_EQ(out.state(), connection_state::closing);
  plain_socket peer = mute.accept();
  // Hello, message, goodbye, end of file.
  std::string got;
  std::thread reader{[&] {
    got = peer.receive_all();
    peer.close();
  }};
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  reader.join();
  EXPECT_EQ(got.size(), detail::frame_size(detail::hello_size) + detail::frame_size(1) +
                            detail::frame_size(detail::goodbye_size));
  EXPECT_TRUE(b.whys.back()) << b.whys.back().text();
}

TEST_F(ConnectionLife, WaitingEndsWhenItIsClosedAndDialsAgainUntilThen) {
  where = fresh_unix_address();
  out = b.connect(where, {.reconnect_min = 1ms, .reconnect_max = 5ms});
  EXPECT_EQ(out.state(), connection_state::waiting);
  EXPECT_TRUE(out.send(as_bytes("for whoever comes")));
  for (int i = 0; i < 5; ++i) {
    (void)b.set->wait(2ms);
    b.set->poll();
  }
  EXPECT_EQ(b.closes, 0);
  a.listen(where);
  ASSERT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(out.state(), connection_state::open);
  a.set.reset();
  ASSERT_TRUE(until([&] { return out.state() == connection_state::waiting; }));
  EXPECT_EQ(b.closes, 0);
  EXPECT_TRUE(out.close());
  EXPECT_EQ(out.state(), connection_state::closed);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_TRUE(b.whys.back());
}

TEST_F(ConnectionLife, OpenEndsWithTheOtherEnd) {
  join();
  EXPECT_TRUE(in.send(as_bytes("last words")));
  in.flush();
  a.set.reset();
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"last words"});
  EXPECT_EQ(b.whys.back(), errc::peer_closed);
  EXPECT_EQ(b.events, (std::vector<std::string>{"open", "close peer_closed"}));
}

TEST_F(ConnectionLife, HearsTheLastWordsEvenIfItCanNotWriteAnyMore) {
  join();
  EXPECT_TRUE(in.send(as_bytes("last words")));
  EXPECT_TRUE(in.flush());
  a.set.reset();
  EXPECT_TRUE(out.send(as_bytes("to nobody")));
  EXPECT_TRUE(out.flush() != errc::closed);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"last words"});
  EXPECT_EQ(b.whys.back(), errc::peer_closed);
}

TEST_F(ConnectionLife, OpenEndsWhenTheOtherEndBreaksTheProtocol) {
  where = a.listen("ipv4://127.0.0.1:0");
  plain_socket peer = plain_socket::connect(where);
  const auto hello = detail::hello_frame({.wants_checksums = true, .session = 1});
  EXPECT_TRUE(peer.send({reinterpret_cast<const char*>(hello.data()), hello.size()}));
  ASSERT_TRUE(until([&] { return a.opens == 1; }));
  EXPECT_TRUE(peer.send("this is not a frame, whatever one thinks of it"));
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_EQ(a.whys.back(), errc::protocol_error);
  EXPECT_EQ(a.set->stats().quarantined, 1U);
}

TEST_F(ConnectionLife, ClosingEndsWithTheLingerTimeAndSaysWhatWasNotSent) {
  join();
  EXPECT_TRUE(in.pause());
  const std::size_t count = fill(out);
  std::size_t unsent = 0;
  b.on_close = [&](connection c, const error&) { unsent = c.unsent({}); };
  EXPECT_TRUE(out.close(20ms));
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
  EXPECT_GT(unsent, 0U);
  EXPECT_LE(unsent, count);
  EXPECT_NE(b.whys.back().text().find(std::to_string(unsent) + " messages"), std::string::npos)
      << b.whys.back().text();
}

TEST_F(ConnectionLife, ClosingByTheOtherEndHasALingerTimeToo) {
  join({}, {.connection = {.linger = 20ms}});
  (void)fill(in);  // more than the sockets hold
  EXPECT_TRUE(out.close(1h));
  ASSERT_TRUE(turn_until({&b}, [&] { return out.state() == connection_state::closing; }));
  b.set->flush();
  // b reads nothing from now on, and a can't wait for it for ever.
  ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
  EXPECT_EQ(a.whys.back(), errc::peer_closed);
}

TEST_F(ConnectionLife, ClosedMeansEveryVerbSaysSo) {
  join();
  auto slot = out.claim(8);
  EXPECT_TRUE(out.abort());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(out.send(as_bytes("x")), errc::closed);
    EXPECT_EQ(out.send({as_bytes("x"), as_bytes("y")}), errc::closed);
    EXPECT_EQ(out.claim(1).why(), errc::closed);
    EXPECT_EQ(out.flush(), errc::closed);
    EXPECT_EQ(out.pause(), errc::closed);
    EXPECT_EQ(out.resume(), errc::closed);
    EXPECT_EQ(out.confirm(), errc::closed);
    EXPECT_EQ(out.resend(), errc::closed);
    EXPECT_EQ(out.close(), errc::closed);
    EXPECT_EQ(out.abort(), errc::closed);
    EXPECT_EQ(out.release(1), 0U);
    EXPECT_EQ(out.unsent({}), 0U);
    EXPECT_EQ(out.state(), connection_state::closed);
    if (round == 0) {
      EXPECT_EQ(slot.commit(), errc::closed);
      EXPECT_TRUE(until([&] { return b.closes == 1; }));
      EXPECT_EQ(out.peer(), "");
    }
    if (round == 1)
      b.set.reset();
  }
  EXPECT_EQ(connection{}.send(as_bytes("x")), errc::closed);
  // A later connection in the same place is another one.
  recorded_set later;
  const connection c = later.connect(fresh_unix_address(), {.reconnect_min = 1h});
  EXPECT_EQ(c.state(), connection_state::waiting);
  EXPECT_EQ(out.state(), connection_state::closed);
}

// --- handlers

enum class deed { close, abort, close_listener, close_set, destroy_set, connect };

class ConnectionHandler : public testing::TestWithParam<deed> {};

std::string deed_name(const testing::TestParamInfo<deed>& tested) {
  static const char* const names[] = {"Close",    "Abort",      "CloseListener",
                                      "CloseSet", "DestroySet", "Connect"};
  return names[static_cast<std::size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, ConnectionHandler,
                         testing::Values(deed::close, deed::abort, deed::close_listener,
                                         deed::close_set, deed::destroy_set, deed::connect),
                         deed_name);

TEST_P(ConnectionHandler, MayDoWhateverItLikes) {
  for (const char* where : {"open", "message", "writable", "close", "problem"}) {
    for (const bool other_one : {false, true}) {
      recorded_set a;
      recorded_set b;
      const std::string at = a.listen(fresh_unix_address());
      connection second = a.connect(at, {.reconnect_min = 1h});
      int done = 0;
      const auto act = [&](connection c) {
        ++done;
        if (a.set == nullptr)
          return;
        const connection target = other_one ? second : c;
        switch (GetParam()) {
          case deed::close:
            (void)target.close();
            break;
          case deed::abort:
            (void)target.abort();
            break;
          case deed::close_listener:
            (void)a.set->close_listener(at);
            break;
          case deed::close_set:
            a.set->close();
            break;
          case deed::destroy_set:
            a.set.reset();
            break;
          case deed::connect:
            if (done < 5)
              (void)a.set->connect(at);
            break;
        }
      };
      const std::string_view when = where;
      if (when == "open")
        a.on_open = act;
      if (when == "message")
        a.on_message = [&](connection c, bytes_view) { act(c); };
      if (when == "writable")
        a.on_writable = act;
      if (when == "close")
        a.on_close = [&](connection c, const error&) { act(c); };
      if (when == "problem")
        a.on_problem = [&](const error&) { act(second); };
      connection to_a = b.connect(at);
      const std::string large(60'000, 'x');
      bool stirred = false;
      const auto stir = [&] {
        // So that each handler has a reason to be called.
        if (a.set == nullptr || !a.last.is_open() || std::exchange(stirred, true))
          return;
        for (int i = 0; i < 5; ++i)
          (void)to_a.send(as_bytes("message"));
        while (a.last.send(as_bytes(large)))
          continue;
        if (when == "close")
          (void)a.last.abort();
      };
      std::optional<plain_socket> stranger;
      EXPECT_TRUE(turn_until({&a, &b}, [&] {
        stir();
        if (when == "problem" && stirred && !stranger && a.set != nullptr) {
          stranger = plain_socket::connect(at);
          EXPECT_TRUE(stranger->send(std::string(100, '?')));
        }
        return done != 0;
      })) << where;
      // And nothing falls over later.
      for (int i = 0; i < 20; ++i) {
        if (a.set != nullptr)
          a.set->poll();
        b.set->poll();
      }
    }
  }
}

TEST_F(ConnectionLife, NothingIsToldFromInsideAHandler) {
  join();
  int depth = 0;
  a.on_message = [&](connection c, bytes_view) {
    EXPECT_EQ(depth++, 0);
    EXPECT_EQ(a.set->poll(), 0U);
    EXPECT_EQ(a.set->wait(1s), errc::invalid_argument);
    EXPECT_FALSE(a.set->prepare_sleep());
    a.set->finish_sleep();
    EXPECT_TRUE(c.send(as_bytes("answer")));
    EXPECT_TRUE(c.flush());
    --depth;
  };
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(until([&] { return b.messages.size() == 100; }));
}

TEST_F(ConnectionLife, AThrowingHandlerLeavesPollAndTheRestGoesOn) {
  join();
  for (std::size_t i = 0; i != 5; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  a.on_message = [&](connection, bytes_view) {
    if (a.messages.size() == 2)
      throw std::runtime_error{"second"};
  };
  bool thrown = false;
  try {
    (void)until([&] { return a.messages.size() == 5; });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(a.messages.size(), 2U);
  EXPECT_TRUE(until([&] { return a.messages.size() == 5; }));
  EXPECT_EQ(a.messages.back(), numbered(4));
  // One that throws in on_close has been told.
  a.on_close = [](connection, const error&) { throw std::runtime_error{"close"}; };
  EXPECT_TRUE(in.abort());
  EXPECT_THROW(a.set->poll(), std::runtime_error);
  EXPECT_EQ(a.set->size(), 0U);
}

TEST_F(ConnectionLife, PollKeepsToItsLimits) {
  join();
  for (std::size_t i = 0; i != 10; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  EXPECT_TRUE(out.flush());
  ASSERT_TRUE(a.set->wait(30s));
  EXPECT_EQ(a.set->poll({.messages = 3}), 3U);
  EXPECT_TRUE(a.set->wait(0s));
  EXPECT_EQ(a.set->poll({.messages = 3}), 3U);
  EXPECT_EQ(a.set->poll(), 4U);
}

TEST_F(ConnectionLife, AForkedChildIsToldSoAndTheParentGoesOn) {
  join();
  const pid_t child = fork();
  if (child == 0) {
    const bool right = out.send(as_bytes("x")) == errc::used_after_fork &&
                       in.state() == connection_state::closed && a.set->poll() == 0 &&
                       a.set->wait(1h) == errc::used_after_fork &&
                       a.set->connect(where).error() == errc::used_after_fork;
    a.set.reset();
    b.set.reset();
    _exit(right ? 0 : 1);
  }
  int how = 1;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  EXPECT_TRUE(out.send(as_bytes("still here")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

// --- slots and limits

TEST_F(ConnectionLife, ASlotIsWorthNothingWithoutACommit) {
  join();
  {
    auto dropped = out.claim(100);
    EXPECT_TRUE(dropped);
  }
  auto taken = out.claim(8);
  auto later = out.claim(8);
  EXPECT_EQ(taken.commit(), errc::closed);
  std::fill(later.bytes().begin(), later.bytes().end(), std::byte{'y'});
  EXPECT_EQ(later.commit(9), errc::invalid_argument);
  EXPECT_TRUE(later.commit());
  EXPECT_EQ(later.commit(), errc::closed);
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(a.messages.front(), "yyyyyyyy");
}

TEST_F(ConnectionLife, TheSmallerMessageLimitHolds) {
  join({.connection = {.message_limit = 100}}, {.connection = {.message_limit = 50}});
  EXPECT_EQ(out.message_limit(), 50U);
  EXPECT_EQ(in.message_limit(), 50U);
  EXPECT_EQ(out.send(as_bytes(std::string(51, 'x'))), errc::message_too_large);
  EXPECT_TRUE(out.send(as_bytes(std::string(50, 'x'))));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

TEST_F(ConnectionLife, RefusesWhatCanNotWork) {
  EXPECT_EQ(a.set->listen("shm://name").error(), errc::not_supported);
  EXPECT_EQ(a.set->connect("mem://name").error(), errc::not_supported);
  EXPECT_EQ(a.set->listen("dns://localhost:1").error(), errc::invalid_argument);
  EXPECT_EQ(a.set->connect("ipv4://127.0.0.1:0").error(), errc::invalid_address);
  EXPECT_EQ(a.set->connect("nonsense").error(), errc::invalid_address);
  EXPECT_EQ(
      a.set->connect("ipv4://127.0.0.1:1", {.connection = {.message_limit = 1 << 30}}).error(),
      errc::invalid_argument);
  EXPECT_EQ(a.set->close_listener("unix://@nobody"), errc::not_found);
  EXPECT_EQ(a.set->size(), 0U);
}

// --- listeners

TEST_F(ConnectionLife, AListenerThatIsClosedLeavesItsConnections) {
  join();
  EXPECT_TRUE(a.set->close_listener(where));
  EXPECT_TRUE(out.send(as_bytes("still there")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(in.listener(), where);
  out = b.connect(where);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::not_found);
}

TEST_F(ConnectionLife, ListensAtManyPlacesAtOnce) {
  std::vector<std::string> places{a.listen("ipv4://127.0.0.1:0"), a.listen("ipv6://[::1]:0"),
                                  a.listen(fresh_unix_address()), a.listen("ipv4://127.0.0.1:0")};
  std::vector<std::string> came;
  a.on_open = [&](connection c) { came.push_back(c.listener()); };
  for (const std::string& place : places)
    b.connect(place);
  ASSERT_TRUE(until([&] { return came.size() == places.size(); }));
  std::sort(places.begin(), places.end());
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, places);
}

TEST_F(ConnectionLife, MoreThanTheCapWaitInTheBacklog) {
  where = a.listen(fresh_unix_address(), {.connections = 2});
  for (int i = 0; i < 3; ++i)
    b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 2; }));
  for (int i = 0; i < 5; ++i) {
    a.set->poll();
    b.set->poll();
  }
  EXPECT_EQ(a.opens, 2);
  EXPECT_TRUE(a.set->prepare_sleep());
  pollfd asked{.fd = a.set->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
  EXPECT_EQ(a.set->longest_sleep(), -1ns);
  EXPECT_TRUE(a.last.abort());
  EXPECT_TRUE(until([&] { return a.opens == 3; }));
}

TEST_F(ConnectionLife, TheOldestSilentOneMakesRoomForANewOne) {
  where = a.listen("ipv4://127.0.0.1:0", {.unconfirmed = 2});
  std::vector<plain_socket> silent;
  for (int i = 0; i < 3; ++i)
    silent.push_back(plain_socket::connect(where));
  ASSERT_TRUE(until([&] { return a.set->stats().unconfirmed_dropped == 1; }));
  EXPECT_EQ(silent[0].receive_some(), "");
  EXPECT_EQ(silent[0].ended(), "end of file");
  b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 1; }));
  EXPECT_EQ(a.set->stats().unconfirmed_dropped, 2U);
  // Those never told of are not told of.
  EXPECT_EQ(a.closes, 0);
}

TEST_F(ConnectionLife, ASilentOneIsClosedWhenItsTimeIsUp) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = 20ms}});
  plain_socket silent = plain_socket::connect(where);
  ASSERT_TRUE(until([&] { return a.set->stats().unconfirmed_dropped == 1; }));
  EXPECT_EQ(silent.receive_some(), "");
  EXPECT_EQ(silent.ended(), "end of file");
  EXPECT_TRUE(until([&] { return a.set->size() == 0; }));
}

TEST_F(ConnectionLife, WhoIsNotConfirmedByItsUserIsClosedToo) {
  join({}, {.connection = {.confirm_timeout = 20ms, .user_confirms = true}});
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_EQ(a.whys.back(), errc::timed_out);
  a.on_open = [](connection c) { EXPECT_TRUE(c.confirm()); };
  b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 2; }));
  // Nothing is left that could end it.
  EXPECT_EQ(a.set->longest_sleep(), -1ns);
  EXPECT_EQ(a.set->stats().unconfirmed_dropped, 1U);
}

TEST_F(ConnectionLife, UnconfirmedByTheUserCountForTheCap) {
  where = a.listen(fresh_unix_address(), {.connection = {.user_confirms = true}, .unconfirmed = 1});
  b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 1; }));
  const connection first = a.last;
  b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 2; }));
  EXPECT_EQ(first.state(), connection_state::closed);
  EXPECT_TRUE(a.last.confirm());
  b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 3; }));
  EXPECT_EQ(a.closes, 1);
}

TEST_F(ConnectionLife, OutOfDescriptorsPausesAcceptingAndSaysSo) {
  where = a.listen(fresh_unix_address());
  detail::kernel().accept = [](int, int) {
    errno = EMFILE;
    return -1;
  };
  out = b.connect(where);
  ASSERT_TRUE(until([&] { return a.problems.size() == 1; }));
  EXPECT_NE(a.problems.front().text().find("ulimit"), std::string::npos);
  EXPECT_EQ(a.opens, 0);
  detail::kernel().accept = saved_.accept;
  EXPECT_TRUE(until([&] { return a.opens == 1; }));
}

TEST_F(ConnectionLife, AStrangerIsAProblemAndDisturbsNobody) {
  join();
  recorded_set& set = a;
  plain_socket stranger = plain_socket::connect(where);
  EXPECT_TRUE(stranger.send("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  ASSERT_TRUE(until([&] { return set.problems.size() == 1; }));
  EXPECT_EQ(set.problems.front(), errc::protocol_error);
  EXPECT_EQ(set.closes, 0);
  EXPECT_TRUE(out.send(as_bytes("still here")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

}  // namespace
}  // namespace atbus
