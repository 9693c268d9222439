// What one end may say before the other end's user has confirmed it.
#include "connection_fixture.h"
#include "plain_socket.h"
#include "stream_bytes.h"

namespace atbus {
namespace {

using detail::byte_string;
using detail::hello;
using test::plain_socket;

constexpr std::uint64_t usual_limit = 1 << 20;
constexpr std::uint64_t unconfirmed_limit = 1000;

connection_options of_connection() {
  connection_options options;
  options.message_limit = usual_limit;
  options.user_confirms = true;
  options.unconfirmed_message_limit = unconfirmed_limit;
  return options;
}
std::string message_of(std::size_t size) {
  return std::string(size, 'x');
}
bool opens(const std::string& text) {
  return text.starts_with("proof");
}

class Unconfirmed : public TwoSets, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string any_address() const override {
    const std::string at = GetParam();
    return at == "unix://@" ? fresh_unix_address() : at;
  }
  // `a` listens, and `b` dials; each confirms the other when it says its proof.
  void join_them() {
    connect_options of_dialler;
    of_dialler.connection = of_connection();
    listen_options of_listener;
    of_listener.connection = of_connection();
    for (recorded_set* one : {&a, &b}) {
      one->on_message = [](connection c, bytes_view m) {
        if (opens(std::string{as_text(m)})) {
          EXPECT_TRUE(c.confirm());
        }
      };
    }
    join(of_dialler, of_listener);
  }
};

INSTANTIATE_TEST_SUITE_P(Channel, Unconfirmed, ::testing::Values("ipv4://127.0.0.1:0", "unix://@"),
                         [](const auto& tested) { return std::string{tested.param}.substr(0, 4); });

TEST_P(Unconfirmed, MessageAsLongAsTheLimitIsTold) {
  join_them();
  ASSERT_TRUE(out.send(as_bytes(message_of(unconfirmed_limit))));
  ASSERT_TRUE(until([&] { return a.messages.size() == 1; }));
  EXPECT_EQ(a.messages[0].size(), unconfirmed_limit);
}

TEST_P(Unconfirmed, LongerMessageEndsTheConnectionWhereItWasAccepted) {
  join_them();
  ASSERT_TRUE(out.send(as_bytes(message_of(unconfirmed_limit + 1))));
  ASSERT_TRUE(until([&] { return a.closes == 1; }));
  EXPECT_EQ(a.whys[0], errc::protocol_error);
  EXPECT_TRUE(a.messages.empty());
}

TEST_P(Unconfirmed, LongerMessageEndsTheConnectionWhereItWasDialled) {
  join_them();
  ASSERT_TRUE(in.send(as_bytes(message_of(unconfirmed_limit + 1))));
  ASSERT_TRUE(until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys[0], errc::protocol_error);
  EXPECT_TRUE(b.messages.empty());
}

// They come in one read.
TEST_P(Unconfirmed, LongMessagesRightBehindTheProofAreTold) {
  join_them();
  ASSERT_TRUE(out.send(as_bytes("proof")));
  ASSERT_TRUE(out.send(as_bytes(message_of(usual_limit))));
  ASSERT_TRUE(out.send(as_bytes("between")));
  ASSERT_TRUE(out.send(as_bytes(message_of(unconfirmed_limit + 1))));
  ASSERT_TRUE(until([&] { return a.messages.size() == 4 || a.closes != 0; }));
  ASSERT_EQ(a.messages.size(), 4U);
  EXPECT_EQ(a.messages[1].size(), usual_limit);
  EXPECT_EQ(a.messages[3].size(), unconfirmed_limit + 1);
}

TEST_P(Unconfirmed, LinkOfAReconnectedOneIsLimitedAgain) {
  connect_options of_dialler;
  of_dialler.connection = of_connection();
  of_dialler.reconnect_min = of_dialler.reconnect_max = 1ms;
  listen_options of_listener;
  of_listener.connection.message_limit = usual_limit;
  b.on_open = [](connection c) { EXPECT_TRUE(c.confirm()); };
  join(of_dialler, of_listener);
  ASSERT_TRUE(in.send(as_bytes(message_of(usual_limit))));
  ASSERT_TRUE(until([&] { return b.messages.size() == 1; }));
  b.on_open = nullptr;
  ASSERT_TRUE(in.abort());
  ASSERT_TRUE(until([&] { return a.opens == 2 && b.opens == 2; }));
  ASSERT_TRUE(a.last.send(as_bytes(message_of(unconfirmed_limit + 1))));
  ASSERT_TRUE(until([&] { return a.closes == 2; }));
  EXPECT_EQ(b.messages.size(), 1U);
}

// A length alone ends it: nothing is kept until the rest comes.
TEST(UnconfirmedPeer, WhoAnnouncesAMessageOverTheLimitIsTurnedAwayAtOnce) {
  recorded_set inside;
  listen_options options;
  options.connection = of_connection();
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket unproven = plain_socket::connect(where);
  byte_string bytes;
  detail::append(bytes, detail::hello_frame(hello{.wants_checksums = true, .session = 7}));
  std::array<std::byte, 8> head{};
  detail::store_little_endian<std::uint32_t>(
      head.data(), detail::make_frame_word(detail::frame_kind::data, unconfirmed_limit + 1) |
                       detail::frame_checked_bit);
  detail::append(bytes, head);
  ASSERT_TRUE(unproven.send({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  ASSERT_TRUE(turn_until({&inside}, [&] { return inside.closes == 1; }));
  EXPECT_EQ(inside.whys[0], errc::protocol_error);
}

}  // namespace
}  // namespace atbus
