// A node that holds a crowd of links that do not register, silent or with a byte a second each: its registered peer
// keeps its rate, and memory stays bounded and comes back.
//
// ATBUS_HOSTILE_CONNECTIONS=10000 ATBUS_HOSTILE_SECONDS=5 build/release/bin/hostile_node_test
// --gtest_filter='*HeldCrowd*' prints the rates, and fails below 80 %.
#include "held_crowd.h"

#include <filesystem>

#include "atbus/node.hpp"
#include "reserved_port.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::string_view held_links_secret = "a secret that no stranger has";
constexpr std::uint32_t most_held_links = 20'000;
constexpr bus_id crowded_id{1};
constexpr bus_id good_id{2};
constexpr std::size_t good_message_size = 64;

struct held_links_case {
  const char* name;
  const char* options;  // of the address
  bool speaks = false;

  friend void PrintTo(const held_links_case& of, std::ostream* out) { *out << of.name; }
};

class NodeHeldCrowd : public ::testing::TestWithParam<held_links_case> {
 protected:
  static node_options settings() {
    return node_options{}
        .token(held_links_secret)
        .allow_unencrypted()
        .first_idle_timeout(1h)
        .connections(most_held_links + 1)
        .unconfirmed(most_held_links)
        .strangers({.first_byte_timeout = 0s, .handshakes_per_second = 0});
  }
  // As fast as it can, until it is killed.
  static int send_for_ever(const std::string& address) {
    node good{good_id, settings()};
    test::require(static_cast<bool>(good.connect(crowded_id, address)), "connects");
    std::array<std::byte, good_message_size> bytes{};
    for (std::uint64_t number = 1;;) {
      std::memcpy(bytes.data(), &number, sizeof number);
      if (good.send(crowded_id, 0, bytes)) {
        if (++number % 64 == 0)
          good.poll();
      } else if (good.poll() == 0) {
        (void)good.wait(10ms);
      }
    }
  }
  // Open ones of this process: each link has one.
  static std::size_t descriptors() {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  void take(const message& m) {
    std::uint64_t number = 0;
    std::memcpy(&number, m.bytes().data(), sizeof number);
    wrong += number == ++heard && m.bytes().size() == good_message_size ? 0 : 1;
  }

  std::uint64_t heard = 0;
  std::uint64_t wrong = 0;
};

TEST_P(NodeHeldCrowd, LeavesAGoodPeerItsRate) {
  const std::size_t count = test::crowd_size();
  if (count > most_held_links || !test::may_open_descriptors(count + 1000))
    GTEST_SKIP() << "too few descriptors are allowed (ulimit -Hn)";
  const test::reserved_port port{"ipv4://127.0.0.1:0"};
  const std::string where = port.address() + GetParam().options;
  const test::child_process good{[&] { return send_for_ever(where); }};
  node crowded{crowded_id, settings()};
  crowded.on_message([this](const message& m) { take(m); });
  ASSERT_TRUE(crowded.listen(where));
  const auto turn = [&] {
    if (crowded.poll() == 0)
      (void)crowded.wait(10ms);
  };
  while (heard == 0)
    turn();
  const std::size_t own = descriptors();
  test::good_peer_rounds rounds{turn, [this] { return heard; }};
  const bool encrypted = std::string_view{GetParam().options}.empty();
  for (int i = 0; i != (test::good_peer_rounds::seconds() == 0 ? 1 : 3); ++i)
    rounds.round(where, count, GetParam().speaks ? test::begun_hello(encrypted) : "",
                 [&] { return descriptors() - own; });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(crowded.stats().links_lost, 0U);
  test::expect_weathered(rounds, GetParam().name, count);
}

INSTANTIATE_TEST_SUITE_P(Node, NodeHeldCrowd,
                         ::testing::Values(held_links_case{"plain_silent", "?tls=false"},
                                           held_links_case{"plain_slow", "?tls=false", true},
                                           held_links_case{"tls_silent", ""},
                                           held_links_case{"tls_slow", "", true}),
                         [](const auto& tested) { return std::string{tested.param.name}; });

}  // namespace
}  // namespace atbus
