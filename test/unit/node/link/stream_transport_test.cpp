// What only links through sockets do.
#include "link_fixture.h"
#include "system/socket.h"

namespace atbus::detail {
namespace {

class StreamTransport : public TwoEnds {};

INSTANTIATE_TEST_SUITE_P(Kind, StreamTransport, ::testing::ValuesIn(stream_kinds), kind_name);

TEST_P(StreamTransport, KeepsRoomForControlMessagesInEitherKindOfQueue) {
  for (const auto buffer : {send_buffer_kind::growing, send_buffer_kind::fixed}) {
    for (const std::size_t size : {1U, 1000U, 4096U}) {
      setting.buffer = buffer;
      join();
      in->confirm({});  // a stranger may not say as much
      // Round and round through a ring: its end falls everywhere.
      std::size_t sent = 0;
      std::size_t released = 0;
      for (int round = 0; round != 20; ++round) {
        const std::size_t count = fill(*out, std::string(size, 'x'));
        ASSERT_GT(count, 0U);
        std::size_t more = 0;
        while (more != 100 && send(*out, std::string(64, 'c'), message_purpose::control))
          ++more;
        ASSERT_EQ(more, 100U) << "round " << round << " size " << size;
        sent += count + more;
        ASSERT_TRUE(until([&] { return a->messages.size() == sent; }));
        const std::size_t most = (sent - released) * 2 / 3;
        out->release(most);
        released += most;
      }
    }
  }
}

TEST_P(StreamTransport, HasRoomForTheLongestMessageHoweverSmallItsQueue) {
  for (const auto buffer : {send_buffer_kind::growing, send_buffer_kind::fixed}) {
    setting.buffer = buffer;
    setting.queue_size = 256;
    join();
    in->pause();
    EXPECT_TRUE(send(*out, std::string(setting.message_limit, 'x')));
    EXPECT_TRUE(send(*out, std::string(setting.message_limit, 'x')));
    EXPECT_EQ(send(*out, std::string(setting.message_limit, 'x')), errc::would_block);
  }
}

TEST_P(StreamTransport, SaysWhetherTheOtherEndMayHaveSeenAMessage) {
  join();
  EXPECT_TRUE(out->keeps());
  for (const char* text : {"released", "written"})
    ASSERT_TRUE(send(*out, text));
  ASSERT_TRUE(until([&] { return a->messages.size() == 2; }));
  ASSERT_TRUE(send(*out, "not written"));
  out->release(1);
  out->abort();
  ASSERT_TRUE(until([&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->unreleased,
            (std::vector<std::pair<std::string, errc>>{{"written", errc::outcome_unknown},
                                                       {"not written", errc::not_delivered}}));
}

TEST_P(StreamTransport, ClosesALinkThatIsNotConfirmedInTime) {
  setting.confirm_timeout = 200ms;
  start();
  b->connect(where);
  b->on_opened = [](link& at, bool) { at.confirm({}); };
  ASSERT_TRUE(until([&] { return a->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").why, errc::timed_out);
  EXPECT_NE(a->find("closed").text.find("has not become known in time"), std::string::npos);
}

TEST_P(StreamTransport, TellsOfUnprovenPeersAsAProblem) {
  start();
  // It speaks another protocol.
  auto where_to = *address::parse(where);
  auto raw = dial_socket(to_socket_address(where_to), where, {});
  ASSERT_TRUE(raw) << raw.error().text();
  pollfd connected{raw->fd.get(), POLLOUT, 0};
  ASSERT_EQ(poll(&connected, 1, 30'000), 1);
  ASSERT_EQ(::send(raw->fd.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  ASSERT_TRUE(until([&] { return a->count("problem") == 1; }));
  EXPECT_EQ(a->find("problem").why, errc::protocol_error);
  EXPECT_EQ(a->count("accepted"), 0U);
}

}  // namespace

TEST(StreamTransportOpening, SaysWhyItCantBeUsed) {
  const auto saved = kernel();
  kernel().epoll_create = [](int) {
    errno = EMFILE;
    return -1;
  };
  recorded_end end{std::make_unique<stream_transport>()};
  kernel() = saved;
  const auto where = end.way->listen(*address::parse("ipv4://127.0.0.1:0"));
  ASSERT_FALSE(where);
  EXPECT_EQ(where.error(), errc::system_error);
  EXPECT_TRUE(where.error().text().starts_with("ipv4://127.0.0.1:0: ")) << where.error().text();
  EXPECT_FALSE(end.way->connect(*address::parse("ipv4://127.0.0.1:1")));
  EXPECT_EQ(end.poll(), 0U);
  EXPECT_TRUE(end.way->prepare_sleep());
}

TEST(StreamTransportOpening, RefusesAddressesThatAreNoSockets) {
  recorded_end end{std::make_unique<stream_transport>()};
  EXPECT_EQ(end.way->listen(*address::parse("mem://x")).error(), errc::not_supported);
  EXPECT_EQ(end.way->connect(*address::parse("shm://x")).error(), errc::not_supported);
}

}  // namespace atbus::detail
