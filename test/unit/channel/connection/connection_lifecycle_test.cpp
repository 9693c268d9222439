// The states of a connection, one by one, and what ends each of them.
#include <sys/socket.h>

#include "channel/stream/opening.h"
#include "connection_fixture.h"
#include "plain_socket.h"
#include "stream_bytes.h"

namespace atbus {
namespace {

using test::plain_listener;
using test::plain_socket;

using ConnectionLifecycle = TwoSets;

TEST_F(ConnectionLifecycle, ResolvingEndsAtOnceWhenItIsClosed) {
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

TEST_F(ConnectionLifecycle, ResolvesANameAndTriesItsAddresses) {
  where = a.listen("ipv4://127.0.0.1:0");
  out = b.connect("dns://localhost" + where.substr(where.rfind(':')));
  EXPECT_TRUE(out.send(as_bytes("by name")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(out.state(), connection_state::open);
}

TEST_F(ConnectionLifecycle, RefusedMeansClosedWithTheReasonAndTheMessages) {
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
  explicit full_backlog(std::string_view where = "ipv4://127.0.0.1:0") {
    const auto at = test::socket_address::parse(where);
    const auto make = [&](int flags) {
      return plain_socket{::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | flags, 0)};
    };
    listening_ = make(0);
    EXPECT_EQ(::bind(listening_.fd(), at.get(), at.size), 0);
    EXPECT_EQ(::listen(listening_.fd(), 0), 0);
    const auto to = test::socket_address::bound(listening_.fd());
    address_ = to.text();
    for (int i = 0; i < 4; ++i) {
      fillers_.push_back(make(SOCK_NONBLOCK));
      (void)::connect(fillers_.back().fd(), to.get(), to.size);
    }
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  plain_socket listening_;
  std::string address_;
  std::vector<plain_socket> fillers_;
};

TEST_F(ConnectionLifecycle, ConnectingEndsWithItsTimeout) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 20ms});
  EXPECT_EQ(out.state(), connection_state::connecting);
  EXPECT_GE(b.set->longest_sleep(), 0ns);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLifecycle, ConnectingEndsWhenItIsAborted) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 0s});
  EXPECT_EQ(b.set->longest_sleep(), -1ns);
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.abort());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::closed);
}

TEST_F(ConnectionLifecycle, ConnectingClosedWithMessagesLingers) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 0s});
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.close(1h));
  EXPECT_EQ(out.state(), connection_state::closing);
  EXPECT_TRUE(out.close(10ms));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLifecycle, OpeningEndsWithTheConfirmTimeoutOfWhoDials) {
  const plain_listener mute{"ipv4://127.0.0.1:0"};
  out = b.connect(mute.address(), {.connection = {.confirm_timeout = 20ms}});
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
  EXPECT_EQ(b.opens, 0);
}

TEST_F(ConnectionLifecycle, OpeningEndsWhenTheOtherEndSpeaksAnotherProtocol) {
  const plain_listener other{"ipv4://127.0.0.1:0"};
  out = b.connect(other.address());
  ASSERT_TRUE(until([&] { return out.state() == connection_state::opening; }));
  const plain_socket peer = other.accept();
  EXPECT_TRUE(peer.send("220 smtp.example ESMTP ready and willing to talk\r\n"));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::protocol_error);
}

TEST_F(ConnectionLifecycle, OpeningClosedWaitsForTheOtherEnd) {
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

TEST_F(ConnectionLifecycle, AnAttemptThatIsClosedEndsWithItsOwnTimeToo) {
  const full_backlog nobody;
  out = b.connect(nobody.address(), {.connect_timeout = 20ms});
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.close(1h));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLifecycle, AFullBacklogOfAUnixSocketIsAskedAgainUntilTheTimeIsUp) {
  const full_backlog nobody{fresh_unix_address()};
  out = b.connect(nobody.address(), {.connect_timeout = 20ms});
  EXPECT_EQ(out.state(), connection_state::connecting);
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::would_block);
}

TEST_F(ConnectionLifecycle, WaitingEndsWhenItIsClosedAndDialsAgainUntilThen) {
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

TEST_F(ConnectionLifecycle, OpenEndsWithTheOtherEnd) {
  join();
  EXPECT_TRUE(in.send(as_bytes("last words")));
  in.flush();
  a.set.reset();
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"last words"});
  EXPECT_EQ(b.whys.back(), errc::peer_closed);
  EXPECT_EQ(b.events, (std::vector<std::string>{"open", "close peer_closed"}));
}

TEST_F(ConnectionLifecycle, HearsTheLastWordsEvenIfItCanNotWriteAnyMore) {
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

TEST_F(ConnectionLifecycle, APausedOneHearsOfTheEndWhenItGoesOn) {
  join();
  EXPECT_TRUE(out.pause());
  EXPECT_TRUE(in.send(as_bytes("last words")));
  EXPECT_TRUE(in.flush());
  a.set.reset();
  EXPECT_TRUE(out.send(as_bytes("to nobody")));
  for (int turns = 0; turns != 3; ++turns)
    b.set->poll();
  EXPECT_TRUE(b.set->prepare_sleep());
  EXPECT_EQ(b.closes, 0);
  EXPECT_TRUE(out.resume());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"last words"});
}

TEST_F(ConnectionLifecycle, OpenEndsWhenTheOtherEndBreaksTheProtocol) {
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

TEST_F(ConnectionLifecycle, OpenEndsAtAWrongChecksumBehindWhatIsRight) {
  where = a.listen("ipv4://127.0.0.1:0");
  plain_socket peer = plain_socket::connect(where);
  detail::byte_string stream = detail::opened_stream(true);
  for (std::size_t i = 0; i != 2; ++i)
    detail::append(stream, detail::data_frame(as_bytes(numbered(i)), true));
  detail::append(stream, detail::data_frame(as_bytes("changed on its way"), true));
  stream[stream.size() - 8] ^= std::byte{1};  // in front of its padding
  detail::append(stream, detail::data_frame(as_bytes("behind it"), true));
  EXPECT_TRUE(peer.send(as_text(stream)));
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_EQ(a.messages, numbered_range(0, 2));
  EXPECT_EQ(a.whys.back(), errc::protocol_error) << a.whys.back().text();
  EXPECT_EQ(a.set->stats().quarantined, 1U);
}

TEST_F(ConnectionLifecycle, ClosingEndsWithTheLingerTimeAndSaysWhatWasNotSent) {
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

TEST_F(ConnectionLifecycle, ALaterCloseCanOnlyShortenTheLingerTime) {
  join();
  EXPECT_TRUE(in.pause());
  (void)fill(out);
  EXPECT_TRUE(out.close(20ms));
  EXPECT_TRUE(out.close(1h));
  ASSERT_TRUE(turn_until({&b}, [&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
}

TEST_F(ConnectionLifecycle, ClosingEndsAPauseAndAllowsNone) {
  join();
  EXPECT_TRUE(in.send(as_bytes("before")));
  EXPECT_TRUE(in.flush());
  EXPECT_TRUE(out.pause());
  EXPECT_TRUE(out.close(1h));
  EXPECT_TRUE(out.pause());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.messages, std::vector<std::string>{"before"});
  EXPECT_TRUE(b.whys.back()) << b.whys.back().text();
}

// Whose other end says hello and never reads.
class ConnectionDeafPeer : public TwoSets {
 protected:
  ConnectionDeafPeer() {
    out = b.connect(listener_.address(), {.connection = {.linger = 1min}});
    peer_ = listener_.accept();
    say(detail::hello_frame({.wants_checksums = true, .session = 1}));
    EXPECT_TRUE(until([&] { return b.opens == 1; }));
    count_ = stuff(out);
  }
  template <class Frame>
  void say(const Frame& frame) {
    EXPECT_TRUE(peer_.send({reinterpret_cast<const char*>(frame.data()), frame.size()}));
  }
  void expect_failure() {
    std::size_t unsent = 0;
    b.on_close = [&](connection c, const error&) { unsent = c.unsent({}); };
    ASSERT_TRUE(until([&] { return b.closes == 1; }));
    EXPECT_EQ(b.whys.back(), errc::peer_closed) << b.whys.back().text();
    EXPECT_GT(unsent, 0U);
    EXPECT_LT(unsent, count_);
  }

  plain_listener listener_{"ipv4://127.0.0.1:0"};
  plain_socket peer_;
  std::size_t count_ = 0;
};

TEST_F(ConnectionDeafPeer, LeavingBeforeAllIsWrittenIsNoSuccess) {
  EXPECT_TRUE(out.close(1h));
  peer_.finish();
  expect_failure();
}

TEST_F(ConnectionDeafPeer, DisappearingBehindItsGoodbyeIsNoSuccess) {
  EXPECT_TRUE(out.close(1h));
  say(detail::goodbye_frame(errc::ok, true));
  ASSERT_TRUE(until([&] { return b.set->prepare_sleep() && b.set->longest_sleep() > 0ns; }));
  peer_.close();
  expect_failure();
}

TEST_F(ConnectionDeafPeer, ItsGoodbyeDoesNotChangeOurLingerTime) {
  EXPECT_TRUE(out.close(1h));
  say(detail::goodbye_frame(errc::ok, true));
  for (int turns = 0; turns != 3; ++turns) {
    (void)b.set->wait(1ms);
    b.set->poll();
  }
  EXPECT_GT(b.set->longest_sleep(), 30min);
}

TEST_F(ConnectionLifecycle, ClosingByTheOtherEndHasALingerTimeToo) {
  join({}, {.connection = {.linger = 20ms}});
  (void)fill(in);  // more than the sockets hold
  EXPECT_TRUE(out.close(1h));
  ASSERT_TRUE(turn_until({&b}, [&] { return out.state() == connection_state::closing; }));
  b.set->flush();
  // b reads nothing from now on, and a can't wait for it for ever.
  ASSERT_TRUE(turn_until({&a}, [&] { return a.closes == 1; }));
  EXPECT_EQ(a.whys.back(), errc::peer_closed);
}

TEST_F(ConnectionLifecycle, ClosedMeansEveryVerbSaysSo) {
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

// --- again and again

class ConnectionReconnect : public TwoSets {
 protected:
  // Ends the connection from the other end, and waits for the next one.
  void lose_and_reopen() {
    const int before = b.opens;
    EXPECT_TRUE(in.abort());
    ASSERT_TRUE(until([&] { return b.opens == before + 1; }));
  }
};

TEST_F(ConnectionReconnect, ALingerTimeEndsWithItsLink) {
  join({.connection = {.linger = 1h}, .reconnect_min = 1ms});
  EXPECT_TRUE(in.close());
  ASSERT_TRUE(until([&] { return b.opens == 2; }));
  EXPECT_EQ(b.set->longest_sleep(), -1ns);
  EXPECT_EQ(b.closes, 0);
}

TEST_F(ConnectionReconnect, EachConnectionIsToBeConfirmedAnew) {
  join({.connection = {.user_confirms = true}, .reconnect_min = 1ms});
  EXPECT_TRUE(out.confirm());
  EXPECT_EQ(b.set->longest_sleep(), -1ns);
  lose_and_reopen();
  EXPECT_GT(b.set->longest_sleep(), 0ns);
}

TEST_F(ConnectionReconnect, TheLimitIsThatOfTheNewOtherEnd) {
  join({.connection = {.message_limit = 100}, .reconnect_min = 1ms},
       {.connection = {.message_limit = 50}});
  EXPECT_EQ(out.message_limit(), 50U);
  EXPECT_TRUE(a.set->close_listener(where));
  a.listen(where, {.connection = {.message_limit = 80}});
  lose_and_reopen();
  EXPECT_EQ(out.message_limit(), 80U);
}

// It would be refused by that one for ever.
TEST_F(ConnectionReconnect, EndsIfTheNewOtherEndTakesNoMessageAsLongAsOneQueued) {
  join({.connection = {.release = release_policy::by_user}, .reconnect_min = 1ms});
  EXPECT_TRUE(a.set->close_listener(where));
  EXPECT_TRUE(out.send(as_bytes(std::string(51, 'x'))));
  a.listen(where, {.connection = {.message_limit = 50}});
  EXPECT_TRUE(in.abort());
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::message_too_large);
  EXPECT_NE(b.whys.back().text().find("51"), std::string::npos) << b.whys.back().text();
}

TEST_F(ConnectionReconnect, AClaimThatAGoodbyeHasEndedSaysSo) {
  join({.reconnect_min = 1ms});
  auto slot = out.claim(8);
  ASSERT_TRUE(slot);
  EXPECT_TRUE(in.close());
  ASSERT_TRUE(until([&] { return b.opens == 2; }));
  EXPECT_EQ(slot.commit(), errc::closed);
  EXPECT_EQ(out.queued(), 0U);
}

TEST_F(ConnectionReconnect, AClaimOutlivesALostConnection) {
  join({.reconnect_min = 1ms});
  auto slot = out.claim(5);
  ASSERT_TRUE(slot);
  std::copy_n(as_bytes("claim").begin(), 5, slot.bytes().begin());
  lose_and_reopen();
  EXPECT_TRUE(slot.commit());
  ASSERT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(a.messages.front(), "claim");
}

TEST(ConnectionSetThatIsEmpty, SleepsThoughItsLastConnectionWasReleasedWhenItClosed) {
  auto listening = connection_set::open();
  ASSERT_TRUE(listening);
  const auto where = listening->listen(fresh_unix_address());
  ASSERT_TRUE(where);
  bool has_closed = false;
  connection_handlers handlers;
  handlers.on_close = [&](connection at, const error&) {
    (void)at.release(at.unreleased([](bytes_view, bool) {}));
    has_closed = true;
  };
  auto dialling = connection_set::open(std::move(handlers));
  ASSERT_TRUE(dialling);
  connect_options by_user;
  by_user.connection.release = release_policy::by_user;
  auto out = dialling->connect(*where, by_user);
  ASSERT_TRUE(out);
  const auto deadline = now() + 30s;
  while (out->state() != connection_state::open && now() < deadline) {
    dialling->poll();
    listening->poll();
  }
  const std::vector<std::byte> message(60'000);
  status sent;
  while (sent)
    sent = out->send(message);
  EXPECT_EQ(sent, errc::would_block);
  listening->close();
  while (!has_closed && now() < deadline) {
    (void)dialling->wait(10ms);
    dialling->poll();
  }
  dialling->poll();
  EXPECT_EQ(dialling->wait(20ms), errc::timed_out);
}

}  // namespace
}  // namespace atbus
