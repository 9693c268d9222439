// Programs that look late at a connection whose time is over: what came in time counts.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "atbus/receiver.hpp"
#include "channel/common/frame.h"
#include "channel/stream/last_look.h"
#include "channel/stream/opening.h"
#include "plain_socket.h"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

using test::plain_socket;

constexpr auto their_time = 300ms;
// Time itself is what these tests are about.
void let_pass(std::chrono::nanoseconds time) {
  std::this_thread::sleep_for(time);
}
void look_away() {
  let_pass(their_time + 20ms);
}
// Until a moment at which their time is just over; it began before this call.
void look_right_behind() {
  let_pass(their_time);
}
const socket_options& encrypted() {
  static const socket_options made{
      .tls = *tls_credentials::from_token("a secret of the test, long enough")};
  return made;
}

// A hello, and the message "hello".
std::string first_words() {
  detail::hello own;
  own.session = 77;
  const auto opening = detail::hello_frame(own);
  std::string said{as_text(bytes_view{opening})};
  std::array<std::byte, 16> message{};
  detail::begin_frame(message.data(), detail::frame_kind::data, 5);
  std::memcpy(message.data() + 8, "hello", 5);
  detail::seal_frame(message.data());
  return said.append(as_text(bytes_view{message}));
}

using LateLook = TwoSets;

// What a receiver hands out of a stranger that speaks in time, of a program that then does not look for a while.
std::vector<std::string> heard_behind(void (*pause)()) {
  std::vector<std::string> all;
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time});
  EXPECT_TRUE(inbox) << inbox.error().text();
  if (!inbox)
    return all;
  const auto read = [&] { inbox->poll([&](bytes_view m) { all.emplace_back(as_text(m)); }); };
  const plain_socket dialling = plain_socket::connect(inbox->address());
  for (const auto end = now() + 30s; inbox->stats().connections == 0 && now() < end;)
    read();
  EXPECT_TRUE(dialling.send(first_words()));
  pause();
  for (const auto end = now() + 30s;
       all.empty() && inbox->stats().strangers.late == 0 && now() < end;)
    read();
  EXPECT_EQ(inbox->stats().strangers.late, 0);
  return all;
}

TEST_F(LateLook, AReceiverReadsWhatWasSaidInTime) {
  EXPECT_EQ(heard_behind(look_away), std::vector<std::string>{"hello"});
}

// Neither a program that is on time nor one that is a little late: the look itself is what counts.
TEST_F(LateLook, AReceiverReadsWhatWasSaidRightBeforeTheEnd) {
  EXPECT_EQ(heard_behind(look_right_behind), std::vector<std::string>{"hello"});
}

// They would be turned away with the time of the others, which is longer than the pause between two handshakes.
TEST_F(LateLook, AReceiverWakesForStrangersThatWaitBehindTheirTime) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time,
                                                     .strangers = {.handshakes_per_second = 20}});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const auto read = [&] { inbox->poll([](bytes_view) {}); };
  constexpr std::size_t count = 30;
  std::vector<plain_socket> all;
  for (std::size_t i = 0; i != count; ++i)
    all.push_back(plain_socket::connect(inbox->address()));
  for (const auto end = now() + 30s; inbox->stats().connections != count && now() < end;)
    read();
  for (const plain_socket& one : all)
    ASSERT_TRUE(one.send(first_words()));
  look_away();
  for (int i = 0; i != 10; ++i)  // a poll makes 16 reads
    read();
  EXPECT_GT(inbox->stats().strangers.delayed, 0);
  EXPECT_LE(inbox->longest_sleep(), 50ms);
}

TEST_F(LateLook, AReceiverGivesAllThatSayNoMoreTheSameTime) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time,
                                                     .strangers = {.handshakes_per_second = 0}});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const auto read = [&] { inbox->poll([](bytes_view) {}); };
  constexpr std::size_t count = 30;
  std::vector<plain_socket> all;
  for (std::size_t i = 0; i != count; ++i)
    all.push_back(plain_socket::connect(inbox->address()));
  for (const auto end = now() + 30s; inbox->stats().connections != count && now() < end;)
    read();
  const auto say = [&](std::string_view words) {
    for (const plain_socket& one : all)
      (void)one.send(words);  // it may have been closed
  };
  const std::string hello = first_words();
  say(hello.substr(0, 4));
  look_away();
  const auto read_all = [&] {  // a poll makes 16 reads
    for (int i = 0; i != 10; ++i)
      read();
  };
  read_all();
  say(hello.substr(4, 1));
  let_pass(detail::last_look::more_time + 20ms);
  read_all();
  EXPECT_EQ(inbox->stats().strangers.late, count);
}

TEST_F(LateLook, AConnectionReadsWhatWasSaidInTime) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = their_time}});
  const plain_socket dialling = plain_socket::connect(where);
  for (const auto end = now() + 30s; a.set->stats().connections == 0 && now() < end;)
    a.set->poll();
  ASSERT_TRUE(dialling.send(first_words()));
  look_away();
  EXPECT_TRUE(
      turn_until({&a}, [&] { return !a.messages.empty() || a.set->stats().strangers.late != 0; }));
  EXPECT_EQ(a.messages, std::vector<std::string>{"hello"});
  EXPECT_EQ(a.set->stats().strangers.late, 0);
}

TEST_F(LateLook, AConnectionReadsWhatWasSaidRightBeforeTheEnd) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = their_time}});
  const plain_socket dialling = plain_socket::connect(where);
  for (const auto end = now() + 30s; a.set->stats().connections == 0 && now() < end;)
    a.set->poll();
  ASSERT_TRUE(dialling.send(first_words()));
  look_right_behind();
  EXPECT_TRUE(
      turn_until({&a}, [&] { return !a.messages.empty() || a.set->stats().strangers.late != 0; }));
  EXPECT_EQ(a.messages, std::vector<std::string>{"hello"});
}

// A byte of its hello before each look.
TEST_F(LateLook, WhoSaysALittleBeforeEachLookEnds) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time});
  ASSERT_TRUE(inbox) << inbox.error().text();
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = their_time}});
  const plain_socket one = plain_socket::connect(inbox->address());
  const plain_socket other = plain_socket::connect(where);
  const auto look = [&] {
    inbox->poll([](bytes_view) {});
    a.set->poll();
  };
  const auto has_come = [](const channel_stats& of) {
    return of.connections + of.strangers.late != 0;
  };
  for (const auto end = now() + 30s;
       !(has_come(inbox->stats()) && has_come(a.set->stats())) && now() < end;)
    look();
  for (const char byte : first_words().substr(0, 10)) {
    (void)one.send({&byte, 1});  // it may have been closed
    (void)other.send({&byte, 1});
    let_pass(detail::last_look::more_time);
    look();
  }
  EXPECT_EQ(inbox->stats().strangers.late, 1);
  EXPECT_EQ(a.set->stats().strangers.late, 1);
}

TEST_F(LateLook, WhoSaysNothingMoreEnds) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = 20ms}});
  const plain_socket half = plain_socket::connect(where);
  for (const auto end = now() + 30s; a.set->stats().connections == 0 && now() < end;)
    a.set->poll();
  ASSERT_TRUE(half.send(first_words().substr(0, 4)));
  look_away();
  EXPECT_TRUE(turn_until({&a}, [&] { return a.set->stats().strangers.late != 0; }));
}

// As if the kernel had no memory for a read.
ssize_t read_nothing(int /*fd*/, void* /*place*/, std::size_t /*size*/, int /*flags*/) {
  errno = ENOMEM;
  return -1;
}

TEST_F(LateLook, AReceiverKeepsNoStrangerThatItCanNotRead) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const plain_socket dialling = plain_socket::connect(inbox->address());
  for (const auto end = now() + 30s; inbox->stats().connections == 0 && now() < end;)
    inbox->poll([](bytes_view) {});
  detail::kernel().recv = read_nothing;
  ASSERT_TRUE(dialling.send(first_words()));
  look_away();
  for (const auto end = now() + 30s; inbox->stats().strangers.late == 0 && now() < end;) {
    (void)inbox->wait(1ms);
    inbox->poll([](bytes_view) {});
  }
  EXPECT_EQ(inbox->stats().strangers.late, 1);
}

TEST_F(LateLook, ASetKeepsNoStrangerThatItCanNotRead) {
  where = a.listen("ipv4://127.0.0.1:0", {.connection = {.confirm_timeout = their_time}});
  const plain_socket dialling = plain_socket::connect(where);
  for (const auto end = now() + 30s; a.set->stats().connections == 0 && now() < end;)
    a.set->poll();
  detail::kernel().recv = read_nothing;
  ASSERT_TRUE(dialling.send(first_words()));
  look_away();
  EXPECT_TRUE(turn_until({&a}, [&] { return a.set->stats().strangers.late != 0; }));
}

TEST_F(LateLook, ALingerEndsThoughNothingCanBeRead) {
  where = a.listen("ipv4://127.0.0.1:0");
  out = b.connect(where);
  ASSERT_TRUE(until([&] { return a.opens == 1 && b.opens == 1; }));
  detail::kernel().recv = read_nothing;
  EXPECT_TRUE(a.last.send(as_bytes("unread")));
  a.set->flush();
  EXPECT_TRUE(out.close(their_time));
  look_away();
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out) << b.whys.back().text();
}

TEST_F(LateLook, ALastWordIsHeardAfterTheLinger) {
  join();
  a.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.send(as_bytes("answer"))); };
  EXPECT_TRUE(out.send(as_bytes("question")));
  EXPECT_TRUE(out.close(their_time));
  b.set->poll();
  ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
  look_away();
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"answer"});
  EXPECT_TRUE(b.whys.back()) << b.whys.back().text();
}

// The other end answers nothing.
TEST_F(LateLook, ACloseWithoutLingerHandsOutWhatHasCome) {
  const std::vector<std::pair<std::string, socket_options>> kinds{{fresh_unix_address(), {}},
                                                                  {"ipv4://127.0.0.1:0", {}},
                                                                  {"ipv6://[::1]:0", {}},
                                                                  {"ipv6://[::1]:0", encrypted()}};
  for (const auto& [at, sockets] : kinds) {
    SCOPED_TRACE(at + (sockets.tls ? ", encrypted" : ""));
    recorded_set near;
    recorded_set far;
    where = near.listen(at, {.connection = {.socket = sockets}});
    out = far.connect(where, {.connection = {.socket = sockets}});
    ASSERT_TRUE(turn_until({&near, &far}, [&] { return near.opens == 1 && far.opens == 1; }));
    EXPECT_TRUE(out.send(as_bytes("came in time")));
    far.set->flush();
    ASSERT_TRUE(near.set->wait(30s));
    EXPECT_TRUE(near.last.close(0ns));
    ASSERT_TRUE(turn_until({&near}, [&] { return near.closes == 1; }));
    EXPECT_EQ(near.messages, std::vector<std::string>{"came in time"});
  }
}

TEST_F(LateLook, ALastWordRightBeforeTheEndOfTheLingerIsHeard) {
  join();
  EXPECT_TRUE(in.close(their_time));
  EXPECT_TRUE(out.send(as_bytes("came in time")));
  b.set->flush();
  look_right_behind();
  ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
  EXPECT_EQ(a.messages, std::vector<std::string>{"came in time"});
}

// Two looks, each with its time, and one more turn for what the second has read.
TEST_F(LateLook, WhoSendsBeforeEachLookHoldsNoConnection) {
  join();
  EXPECT_TRUE(out.send(as_bytes("first")));
  EXPECT_TRUE(in.close(0ns));
  int looks = 0;
  for (; a.closes == 0 && looks != 10; ++looks) {
    for (int i = 0; i != 5; ++i)
      (void)out.send(as_bytes("more"));  // the other end may have gone
    b.set->flush();
    a.set->poll({.messages = 2});
    let_pass(detail::last_look::more_time);
  }
  EXPECT_EQ(a.closes, 1);
  EXPECT_GT(looks, 1);
}

// The first one was for what came before the connection was confirmed.
TEST_F(LateLook, ALingerHasALookOfItsOwn) {
  join({}, {.connection = {.confirm_timeout = their_time, .user_confirms = true}});
  a.on_message = [](connection c, bytes_view) { EXPECT_TRUE(c.confirm()); };
  EXPECT_TRUE(out.send(as_bytes("before it was confirmed")));
  b.set->flush();
  look_away();
  ASSERT_TRUE(turn_until({&a}, [&] { return !a.messages.empty() || a.closes == 1; }));
  EXPECT_TRUE(out.send(as_bytes("behind the goodbye")));
  b.set->flush();
  EXPECT_TRUE(in.close(their_time));
  look_away();
  ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
  EXPECT_EQ(a.messages,
            (std::vector<std::string>{"before it was confirmed", "behind the goodbye"}));
}

// One record, more than a read takes. Another connection uses up the limit of the poll before the next read.
TEST_F(LateLook, WhatLiesInATlsSessionIsHandedOutAfterTheLinger) {
  recorded_set near{{.read_size = 4096}};
  where = near.listen("ipv6://[::1]:0", {.connection = {.socket = encrypted()}});
  out = b.connect(where, {.connection = {.socket = encrypted()}});
  const connection beside = b.connect(where, {.connection = {.socket = encrypted()}});
  ASSERT_TRUE(turn_until({&near, &b}, [&] { return near.opens == 2 && b.opens == 2; }));
  std::vector<std::string> all;
  near.on_message = [&](connection c, bytes_view m) {
    if (m.size() < 1000)
      return;
    in = c;
    all.emplace_back(as_text(m));
  };
  const std::vector<std::string> sent{3, std::string(3000, 'x')};
  for (const std::string& one : sent)
    EXPECT_TRUE(out.send(as_bytes(one)));
  EXPECT_TRUE(out.flush());
  EXPECT_TRUE(beside.send(as_bytes("beside")));
  EXPECT_TRUE(beside.flush());
  for (const auto end = now() + 30s; all.empty() && now() < end;)
    near.set->poll({.messages = 2});
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(in.close(their_time));
  look_away();
  ASSERT_TRUE(turn_until({&near}, [&] { return near.closes == 1; }));
  EXPECT_EQ(all, sent);
}

// All of it was read at once; a poll hands out a part of it.
TEST_F(LateLook, WhatWasReadInTimeIsHandedOutAfterTheLinger) {
  join();
  constexpr std::size_t count = 50;
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(out.send(as_bytes(numbered(i))));
  EXPECT_TRUE(out.close(30s));
  b.set->poll();
  a.on_message = [&](connection c, bytes_view) {
    if (a.messages.size() == 1) {
      EXPECT_TRUE(c.close(their_time));
    }
  };
  for (const auto end = now() + 30s; a.messages.empty() && now() < end;)
    a.set->poll({.messages = 10});
  ASSERT_EQ(a.messages.size(), 10);
  look_away();
  for (const auto end = now() + 30s; (a.closes == 0 || b.closes == 0) && now() < end;) {
    a.set->poll({.messages = 10});
    b.set->poll();
  }
  EXPECT_EQ(a.messages, numbered_range(0, count));
  ASSERT_EQ(a.whys.size(), 1);
  EXPECT_TRUE(a.whys.back()) << a.whys.back().text();
}

// Not EPIPE or ECONNRESET, behind which reading goes on.
TEST_F(LateLook, WhatWasReadInTimeIsHandedOutAfterALinkThatCanNotBeWritten) {
  join();
  constexpr std::size_t count = 50;
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(out.send(as_bytes(numbered(i))));
  b.set->flush();
  for (const auto end = now() + 30s; a.messages.empty() && now() < end;)
    a.set->poll({.messages = 10});
  ASSERT_EQ(a.messages.size(), 10);
  detail::kernel().sendmsg = [](int, const msghdr*, int) -> ssize_t {
    errno = ETIMEDOUT;
    return -1;
  };
  EXPECT_TRUE(in.close(their_time));
  look_away();
  for (const auto end = now() + 30s; a.closes == 0 && now() < end;)
    a.set->poll({.messages = 10});
  EXPECT_EQ(a.messages, numbered_range(0, count));
  ASSERT_EQ(a.whys.size(), 1);
  EXPECT_EQ(a.whys.back(), errc::timed_out) << a.whys.back().text();
}

TEST_F(LateLook, ANameThatWasFoundInTimeIsDialled) {
  where = a.listen("ipv4://127.0.0.1:0");
  out = b.connect("dns://localhost" + where.substr(where.rfind(':')), {.connect_timeout = 1s});
  let_pass(1100ms);  // longer than its time
  EXPECT_TRUE(until([&] { return b.opens == 1 || b.closes == 1; }));
  EXPECT_EQ(b.closes, 0) << b.whys.back().text();
}

TEST_F(LateLook, APauseHoldsNoHello) {
  where = a.listen(any_address(), {.connection = {.confirm_timeout = their_time}});
  out = b.connect(where, {.connection = {.confirm_timeout = their_time}});
  EXPECT_TRUE(out.pause());
  a.on_open = [](connection c) { EXPECT_TRUE(c.send(as_bytes("held"))); };
  ASSERT_TRUE(until([&] { return (a.opens == 1 && b.opens == 1) || b.closes == 1; }));
  look_away();
  for (int i = 0; i != 10; ++i) {
    a.set->poll();
    b.set->poll();
  }
  EXPECT_EQ(b.closes, 0) << b.whys.back().text();
  EXPECT_TRUE(b.messages.empty());
  EXPECT_FALSE(b.set->wait(1ms));
  EXPECT_TRUE(out.resume());
  EXPECT_TRUE(until([&] { return !b.messages.empty(); }));
}

}  // namespace
}  // namespace atbus
