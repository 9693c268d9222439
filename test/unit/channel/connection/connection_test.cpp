// What connections carry, on each kind of socket: messages, both ways, until a close.
#include <poll.h>
#include <sys/socket.h>

#include "channel/common/frame.h"
#include "channel/connection/connection_set.h"
#include "connection_fixture.h"

namespace atbus {
namespace {

class Connection : public TwoSets, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string any_address() const override {
    return std::string{GetParam()} == "unix" ? fresh_unix_address() : GetParam();
  }
};

INSTANTIATE_TEST_SUITE_P(Socket, Connection,
                         ::testing::Values("unix", "ipv4://127.0.0.1:0", "ipv6://[::1]:0"),
                         [](const auto& tested) { return std::string{tested.param}.substr(0, 4); });

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

TEST_P(Connection, KnowsOfAUnixSocketWhoseProcessTheOtherEndIs) {
  const bool local = std::string{GetParam()} == "unix";
  out = b.connect("unix://@atbus-test-nobody-" + std::to_string(getpid()), {.reconnect_min = 1h});
  EXPECT_FALSE(out.same_user());
  out.abort();
  join();
  EXPECT_EQ(out.same_user(), local);
  EXPECT_EQ(in.same_user(), local);
  out.abort();
  EXPECT_FALSE(out.same_user());
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
  // The other end's end, which is readable for ever, is seen once.
  EXPECT_TRUE(out.abort());
  EXPECT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  a.set->finish_sleep();
  a.set->poll();
  EXPECT_TRUE(a.set->prepare_sleep());
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
  EXPECT_EQ(a.closes, 0);
  EXPECT_TRUE(in.resume());
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_TRUE(a.messages == numbered_range(0, a.messages.size()));
  EXPECT_LE(a.messages.size(), count);
}

TEST_P(Connection, OpensAndEndsWhilePollsHandOutNothing) {
  const auto turn_until = [&](const std::function<bool()>& done) {
    for (const auto end = now() + 30s; !done() && now() < end;) {
      for (recorded_set* const one : {&a, &b}) {
        EXPECT_EQ(one->set->poll({.messages = 0}), 0U);
        (void)one->set->wait(1ms);
      }
    }
    return done();
  };
  where = a.listen(any_address());
  out = b.connect(where);
  ASSERT_TRUE(turn_until([&] { return a.opens == 1 && b.opens == 1; }));
  EXPECT_TRUE(out.send(as_bytes("for later")));
  EXPECT_TRUE(out.flush());
  for (int turns = 0; turns != 5; ++turns)
    (void)turn_until([&, once = 0]() mutable { return once++ != 0; });
  EXPECT_TRUE(a.messages.empty());
  ASSERT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_TRUE(out.close());
  EXPECT_TRUE(turn_until([&] { return a.closes == 1 && b.closes == 1; }));
}

TEST_P(Connection, OpensAndEndsBehindAMessageThatAPollDoesNotHandOut) {
  join();
  EXPECT_TRUE(out.send(as_bytes("for later")));
  EXPECT_TRUE(out.flush());
  const auto until_without_messages = [&](const std::function<bool()>& done) {
    for (const auto end = now() + 30s; !done() && now() < end;) {
      EXPECT_EQ(a.set->poll({.messages = 0}), 0U);
      b.set->poll();
    }
    return done();
  };
  ASSERT_TRUE(a.set->wait(30s));
  EXPECT_EQ(a.set->poll({.messages = 0}), 0U);
  const connection other = b.connect(where);
  ASSERT_TRUE(until_without_messages([&] { return a.opens == 2 && b.opens == 2; }));
  EXPECT_TRUE(other.close());
  ASSERT_TRUE(until_without_messages([&] { return a.closes == 1 && b.closes == 1; }));
  EXPECT_TRUE(a.messages.empty());
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

// The watches of the user are used up, possibly by another process.
TEST_P(Connection, GoesOnAfterAPauseThoughNoSocketCanBeWatchedAnew) {
  join();
  EXPECT_TRUE(in.pause());
  EXPECT_TRUE(out.send(as_bytes("while it was paused")));
  EXPECT_TRUE(out.flush());
  EXPECT_TRUE(turn_until({&a, &b}, [&] { return a.set->prepare_sleep(); }));
  detail::kernel().epoll_ctl = [](int epoll, int operation, int fd, epoll_event* event) {
    if (operation != EPOLL_CTL_ADD)
      return ::epoll_ctl(epoll, operation, fd, event);
    errno = ENOSPC;
    return -1;
  };
  EXPECT_TRUE(in.resume());
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_TRUE(out.send(as_bytes("later")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 2; }));
  EXPECT_EQ(a.closes + b.closes, 0);
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

// Where the kind of socket makes no difference.
class ConnectionMessage : public TwoSets {
 protected:
  // Queues the messages 0 to `count`; the kernel takes the first and a part of the second.
  void begin_second(std::size_t count, std::chrono::nanoseconds reconnect = {}) {
    join({.connection = {.release = release_policy::by_user}, .reconnect_min = reconnect});
    for (std::size_t i = 0; i != count; ++i)
      EXPECT_TRUE(out.send(as_bytes(numbered(i))));
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
      const std::size_t bytes = detail::frame_size(numbered(0).size()) + 24;
      return ::send(fd, message->msg_iov[0].iov_base, bytes, flags);
    };
    EXPECT_EQ(out.flush(), errc::would_block);
    detail::kernel().sendmsg = saved_.sendmsg;
    EXPECT_EQ(out.unsent({}), count - 1);
  }
};

TEST_F(ConnectionMessage, WhatIsReleasedBehindABegunMessageIsNeverWritten) {
  begin_second(10);
  EXPECT_EQ(out.release(8), 8U);
  EXPECT_EQ(out.release(1), 1U);
  EXPECT_EQ(out.unreleased({}), 1U);
  ASSERT_TRUE(until([&] { return !a.messages.empty() && a.messages.back() == numbered(9); }));
  EXPECT_EQ(a.messages, (std::vector{numbered(0), numbered(1), numbered(9)}));
}

TEST_F(ConnectionMessage, WhatIsReleasedBehindABegunMessageIsNotSentAgain) {
  for (const bool release_first : {true, false}) {
    SCOPED_TRACE(release_first);
    begin_second(10);
    if (release_first) {
      EXPECT_EQ(out.release(5), 5U);
    }
    EXPECT_TRUE(out.resend());
    if (!release_first) {
      EXPECT_EQ(out.release(5), 5U);
    }
    ASSERT_TRUE(until([&] { return !a.messages.empty() && a.messages.back() == numbered(9); }));
    auto expected = numbered_range(5, 10);
    expected.insert(expected.begin(), {numbered(0), numbered(1)});
    EXPECT_EQ(a.messages, expected);
    a.messages.clear();
    a.opens = b.opens = 0;
  }
}

TEST_F(ConnectionMessage, WhatIsReleasedBehindABegunMessageIsNotSentAgainOnANewConnection) {
  begin_second(10, 1ms);
  EXPECT_EQ(out.release(5), 5U);
  EXPECT_TRUE(in.abort());
  ASSERT_TRUE(until([&] { return !a.messages.empty() && a.messages.back() == numbered(9); }));
  EXPECT_EQ(b.opens, 2);
  EXPECT_EQ(a.messages, numbered_range(5, 10));
}

TEST_F(ConnectionMessage, RoomIsAnnouncedWhenHalfIsFree) {
  constexpr std::size_t size = 64 * 1024;
  join({.connection = {
            .message_limit = 1024, .send_buffer_size = size, .release = release_policy::by_user}});
  (void)fill(out);
  EXPECT_GT(out.queued(), size / 2);
  while (out.queued() > size / 2) {
    b.set->poll();
    EXPECT_EQ(b.writable, 0);
    EXPECT_EQ(out.release(1), 1U);
  }
  b.set->poll();
  b.set->poll();
  EXPECT_EQ(b.writable, 1);
}

TEST_F(ConnectionMessage, LeavesWhenMuchOfItIsQueued) {
  join();
  for (std::size_t bytes = 0; bytes < 256 * 1024; bytes += 10'000)
    EXPECT_TRUE(out.send(as_bytes(std::string(10'000, 'x'))));
  EXPECT_TRUE(turn_until({&a}, [&] { return !a.messages.empty(); }));
}

TEST_F(ConnectionMessage, FindsRoomForSeveralAtATimeWhileTheKernelTakesNone) {
  begin_second(2);
  detail::connection_core* core = nullptr;
  const detail::connection_entry* const entry = detail::connection_core::find(out, core);
  ASSERT_TRUE(entry != nullptr && entry->blocked);
  int alone = 0;
  for (std::size_t bytes = 0; bytes < 512 * 1024; bytes += 10'000) {
    EXPECT_TRUE(out.send(as_bytes(std::string(10'000, 'x'))));
    alone += entry->chunk.room() == 0 ? 1 : 0;
  }
  EXPECT_LT(alone, 5);
}

TEST_F(ConnectionMessage, AnswersLeaveAtTheEndOfPoll) {
  join();
  a.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.send(as_bytes("answer"))); };
  EXPECT_TRUE(out.send(as_bytes("question")));
  EXPECT_TRUE(out.flush());
  ASSERT_TRUE(a.set->wait(30s));
  EXPECT_EQ(a.set->poll(), 1U);
  EXPECT_TRUE(turn_until({&b}, [&] { return b.messages.size() == 1; }));
}

TEST_F(ConnectionMessage, NothingIsToldOfOneThatIsPausedWhenItOpens) {
  a.on_open = [](connection c) { EXPECT_TRUE(c.pause()); };
  where = a.listen(any_address());
  out = b.connect(where);
  EXPECT_TRUE(out.send(as_bytes("right behind the hello")));
  EXPECT_TRUE(out.flush());  // so that one read takes both
  ASSERT_TRUE(until([&] { return a.opens == 1 && b.opens == 1; }));
  for (int turns = 0; turns != 3; ++turns)
    a.set->poll();
  EXPECT_TRUE(a.messages.empty());
  EXPECT_TRUE(a.last.resume());
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

TEST_F(ConnectionMessage, APauseLastsAlsoWhenWritingFails) {
  join();
  b.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.pause()); };
  for (std::size_t i = 0; i != 3; ++i)
    EXPECT_TRUE(in.send(as_bytes(numbered(i))));
  ASSERT_TRUE(until([&] { return b.messages.size() == 1; }));
  detail::kernel().sendmsg = [](int, const msghdr*, int) -> ssize_t {
    errno = ETIMEDOUT;
    return -1;
  };
  EXPECT_TRUE(out.send(as_bytes("never written")));
  (void)out.flush();
  detail::kernel().sendmsg = saved_.sendmsg;
  for (int turns = 0; turns != 3; ++turns)
    b.set->poll();
  EXPECT_EQ(b.messages.size(), 1U);
  b.on_message = nullptr;
  EXPECT_TRUE(out.resume());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, numbered_range(0, 3));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionMessage, NothingMoreIsHandedOutOnceItIsAborted) {
  join();
  b.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.abort()); };
  for (std::size_t i = 0; i != 3; ++i)
    EXPECT_TRUE(in.send(as_bytes(numbered(i))));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, numbered_range(0, 1));
}

TEST_F(ConnectionMessage, NothingMoreIsHandedOutOnceTheSetIsClosed) {
  join();
  b.on_message = [&](connection, bytes_view) { b.set->close(); };
  for (std::size_t i = 0; i != 3; ++i)
    EXPECT_TRUE(in.send(as_bytes(numbered(i))));
  ASSERT_TRUE(until([&] { return !b.messages.empty(); }));
  EXPECT_EQ(b.messages, numbered_range(0, 1));
}

TEST_F(ConnectionMessage, ASlotIsWorthNothingWithoutACommit) {
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

TEST_F(ConnectionMessage, TheSmallerMessageLimitHolds) {
  join({.connection = {.message_limit = 100}}, {.connection = {.message_limit = 50}});
  EXPECT_EQ(out.message_limit(), 50U);
  EXPECT_EQ(in.message_limit(), 50U);
  EXPECT_EQ(out.send(as_bytes(std::string(51, 'x'))), errc::message_too_large);
  EXPECT_TRUE(out.send(as_bytes(std::string(50, 'x'))));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

}  // namespace
}  // namespace atbus
