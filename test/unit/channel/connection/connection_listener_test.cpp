// Listeners of a set: whom they let in, and how many.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection_fixture.h"
#include "plain_socket.h"

namespace atbus {
namespace {

using test::plain_socket;

using ConnectionListener = TwoSets;

TEST_F(ConnectionListener, RefusesWhatCanNotWork) {
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

TEST_F(ConnectionListener, AListenerThatIsClosedLeavesItsConnections) {
  join();
  EXPECT_TRUE(a.set->close_listener(where));
  EXPECT_TRUE(out.send(as_bytes("still there")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(in.listener(), where);
  out = b.connect(where);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::not_found);
}

// A child that runs no handlers of fork, as one of posix_spawn before its exec, keeps the socket open
// that epoll watches.
TEST_F(ConnectionListener, OneThatIsClosedBesideACopyOfItsSocketWakesNobody) {
  where = a.listen(any_address());
  static int listening;
  listening = -1;
  detail::kernel().close = [](int fd) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0)
      listening = ::dup(fd);
    return ::close(fd);
  };
  EXPECT_TRUE(a.set->close_listener(where));
  detail::kernel().close = saved_.close;
  const detail::file copy{listening};
  ASSERT_TRUE(copy);
  const plain_socket newcomer = plain_socket::connect(where);
  pollfd asked{.fd = a.set->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
  EXPECT_EQ(a.set->wait(0ns), errc::timed_out);
  EXPECT_EQ(a.set->poll(), 0U);
  EXPECT_EQ(a.set->size(), 0U);
}

TEST_F(ConnectionListener, ListensAtManyPlacesAtOnce) {
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

TEST_F(ConnectionListener, MoreThanTheCapWaitInTheBacklog) {
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

TEST_F(ConnectionListener, TheOldestSilentOneMakesRoomForANewOne) {
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

TEST_F(ConnectionListener, ASilentOneIsClosedWhenItsTimeIsUp) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = 20ms}});
  plain_socket silent = plain_socket::connect(where);
  ASSERT_TRUE(until([&] { return a.set->stats().unconfirmed_dropped == 1; }));
  EXPECT_EQ(silent.receive_some(), "");
  EXPECT_EQ(silent.ended(), "end of file");
  EXPECT_TRUE(until([&] { return a.set->size() == 0; }));
}

TEST_F(ConnectionListener, WhatItAcceptedIsCountedWhenItIsGone) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = 200ms}});
  plain_socket silent = plain_socket::connect(where);
  plain_socket faulty = plain_socket::connect(where);
  ASSERT_TRUE(until([&] { return a.set->stats().connections == 2; }));
  EXPECT_TRUE(a.set->close_listener(where));
  ASSERT_TRUE(faulty.send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(until([&] { return a.set->stats().strangers.faulty == 1; }));
  EXPECT_TRUE(until([&] { return a.set->stats().strangers.late == 1; }));
  EXPECT_EQ(a.set->stats().unconfirmed_dropped, 1U);
}

TEST_F(ConnectionListener, WhoIsNotConfirmedByItsUserIsClosedToo) {
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

TEST_F(ConnectionListener, UnconfirmedByTheUserCountForTheCap) {
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

TEST_F(ConnectionListener, OutOfDescriptorsPausesAcceptingAndSaysSo) {
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

TEST_F(ConnectionListener, AnUnprovenPeerIsAProblemAndDisturbsNobody) {
  join();
  recorded_set& set = a;
  plain_socket unproven = plain_socket::connect(where);
  EXPECT_TRUE(unproven.send("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  ASSERT_TRUE(until([&] { return set.problems.size() == 1; }));
  EXPECT_EQ(set.problems.front(), errc::protocol_error);
  EXPECT_EQ(set.closes, 0);
  EXPECT_TRUE(out.send(as_bytes("still here")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

TEST_F(ConnectionListener, UnprovenPeersAreToldOfOnceASecondAndAllAreCounted) {
  constexpr std::size_t count = 20;
  where = a.listen(any_address());
  std::vector<plain_socket> unproven_peers;
  for (std::size_t i = 0; i != count; ++i) {
    unproven_peers.push_back(plain_socket::connect(where));
    EXPECT_TRUE(unproven_peers.back().send("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  }
  ASSERT_TRUE(until([&] { return a.set->stats().quarantined == count; }));
  EXPECT_GE(a.problems.size(), 1U);
  EXPECT_LT(a.problems.size(), count);
}

}  // namespace
}  // namespace atbus
