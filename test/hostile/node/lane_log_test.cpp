// A process of this user that speaks into a node's segment as no node does, again and again.
#include "atbus/node.hpp"
#include "atbus/sender.hpp"
#include "named_inbox.h"
#include "test.h"

namespace atbus {
namespace {

TEST(NodeSegment, LogsUnprovenPeersOnceASecond) {
  const test::named_inbox inbox{"log"};
  const std::string where = inbox.address();
  node listener{1};
  int lines = 0;
  listener.on_log(
      [&](std::string_view line) { lines += line.find("not listened to") != line.npos ? 1 : 0; });
  ASSERT_TRUE(listener.listen(where));
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i != 100; ++i) {
    auto unproven = sender::open(where);
    ASSERT_TRUE(unproven) << unproven.error().text();
    ASSERT_TRUE(unproven->send(as_bytes("as if it were a receiver")));
    listener.poll();
  }
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 1 + took / 1s);
}

}  // namespace
}  // namespace atbus
