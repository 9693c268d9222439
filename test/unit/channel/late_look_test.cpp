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

TEST_F(LateLook, AReceiverReadsWhatWasSaidInTime) {
  auto inbox = receiver::open("ipv4://127.0.0.1:0", {.confirm_timeout = their_time});
  ASSERT_TRUE(inbox) << inbox.error().text();
  std::vector<std::string> all;
  const auto read = [&] { inbox->poll([&](bytes_view m) { all.emplace_back(as_text(m)); }); };
  const plain_socket dialling = plain_socket::connect(inbox->address());
  for (const auto end = now() + 30s; inbox->stats().connections == 0 && now() < end;)
    read();
  ASSERT_TRUE(dialling.send(first_words()));
  look_away();
  for (const auto end = now() + 30s;
       all.empty() && inbox->stats().strangers.late == 0 && now() < end;) {
    (void)inbox->wait(1ms);
    read();
  }
  EXPECT_EQ(all, std::vector<std::string>{"hello"});
  EXPECT_EQ(inbox->stats().strangers.late, 0);
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
