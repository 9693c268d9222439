// A receiver that holds a crowd of connections, silent or with a byte a second each: its good sender keeps its rate,
// and memory stays bounded and comes back.
//
// ATBUS_HOSTILE_CONNECTIONS=10000 ATBUS_HOSTILE_SECONDS=5 build/release/bin/hostile_channel_test
// --gtest_filter='*HeldCrowd*' prints the rates, and fails below 80 %.
#include "held_crowd.h"

#include "atbus/atbus.hpp"
#include "test.h"

namespace atbus::test {
namespace {

constexpr std::string_view held_crowd_secret = "a secret that no stranger has";
constexpr std::uint32_t most_held = 20'000;
constexpr std::size_t good_message = 64;

struct held_case {
  const char* name;
  bool encrypted = false;
  bool speaks = false;

  friend void PrintTo(const held_case& of, std::ostream* out) { *out << of.name; }
};

class HeldCrowd : public ::testing::TestWithParam<held_case> {
 protected:
  // As fast as it can, until it is killed.
  static int send_for_ever(const std::string& address, const socket_options& sockets) {
    sender out =
        required(sender::open(address, {.socket = sockets, .connect_timeout = patience})).value();
    std::array<std::byte, good_message> bytes{};
    for (std::uint64_t number = 1;;) {
      std::memcpy(bytes.data(), &number, sizeof number);
      if (const status sent = out.send(bytes); sent)
        ++number;
      else
        require(sent == errc::would_block && out.wait_writable(patience), sent.text());
    }
  }
  void take(bytes_view bytes) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    wrong_ += number == ++heard_ && bytes.size() == good_message ? 0 : 1;
  }

  std::uint64_t heard_ = 0;
  std::uint64_t wrong_ = 0;
};

TEST_P(HeldCrowd, LeavesAGoodPeerItsRate) {
  const std::size_t count = crowd_size();
  if (count > most_held || !may_open_descriptors(count + 1000))
    GTEST_SKIP() << "too few descriptors are allowed (ulimit -Hn)";
  socket_options sockets;
  if (GetParam().encrypted)
    sockets.tls = *tls_credentials::from_token(held_crowd_secret);
  auto inbox = receiver::open(
      "ipv4://127.0.0.1:0", {.socket = sockets,
                             .connections = most_held + 1,
                             .unconfirmed = most_held,
                             .confirm_timeout = 1h,
                             .strangers = {.first_byte_timeout = 0s, .handshakes_per_second = 0}});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const child_process good{[&] { return send_for_ever(inbox->address(), sockets); }};
  const auto turn = [&] {
    if (inbox->poll([this](bytes_view message) { take(message); }) == 0)
      (void)inbox->wait(10ms);
  };
  while (heard_ == 0)
    turn();
  good_peer_rounds rounds{turn, [this] { return heard_; }};
  for (int i = 0; i != (good_peer_rounds::seconds() == 0 ? 1 : 3); ++i)
    rounds.round(inbox->address(), count,
                 GetParam().speaks ? begun_hello(GetParam().encrypted) : "",
                 [&] { return inbox->stats().connections - 1; });
  EXPECT_EQ(wrong_, 0U);
  expect_weathered(rounds, GetParam().name, count);
}

INSTANTIATE_TEST_SUITE_P(Channel, HeldCrowd,
                         ::testing::Values(held_case{"silent"}, held_case{"slow", false, true},
                                           held_case{"tls_silent", true},
                                           held_case{"tls_slow", true, true}),
                         [](const auto& tested) { return std::string{tested.param.name}; });

}  // namespace
}  // namespace atbus::test
