// What a node takes from a connection that has not proven anything.
#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "channel/common/frame.h"
#include "channel/stream/opening.h"
#include "plain_socket.h"
#include "reserved_port.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus {
namespace {

using test::plain_socket;

class UnprovenPeers : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Node, UnprovenPeers, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "unix" : "tcp"; });

TEST_P(UnprovenPeers, AreTurnedAwayForWhatNoHandshakeNeeds) {
  node_options options;
  options.token("0123456789abcdef").message_limit(16 << 20);
  node own{2, options};
  const test::reserved_port port{"ipv4://127.0.0.1:0"};
  const std::string where =
      GetParam() ? "unix://@unproven-" + std::to_string(getpid()) : port.address();
  const error listened = own.listen(where);
  ASSERT_TRUE(listened) << listened.text();
  plain_socket unproven = plain_socket::connect(where);
  detail::byte_string bytes;
  detail::append(bytes, detail::hello_frame(detail::hello{.session = 7}));
  std::array<std::byte, 8> head{};
  detail::store_little_endian<std::uint32_t>(
      head.data(), detail::make_frame_word(detail::frame_kind::data, (16 << 10) + 1) |
                       detail::frame_checked_bit);
  detail::append(bytes, head);
  ASSERT_TRUE(unproven.send({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  const auto deadline = now() + 20s;
  std::string heard;
  while (unproven.ended() != "end of file" && unproven.ended() != "reset" && now() < deadline) {
    own.poll();
    heard += unproven.receive_some(100, 1ms);
  }
  EXPECT_NE(unproven.ended(), "silence");
}

}  // namespace
}  // namespace atbus
