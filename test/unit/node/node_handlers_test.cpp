// Handlers that are set while one of them runs.
#include "atbus/node.hpp"
#include "test.h"

namespace atbus {
namespace {

TEST(NodeHandlers, KeepTheirStateWhenAnotherOneIsSet) {
  node one{1};
  std::vector<int> seen;
  one.on_message([&, count = 0](const message&) mutable {
    seen.push_back(++count);
    if (count == 1)
      one.on_writable([](bus_id) {});
  });
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(one.send(1, 0, as_bytes("to itself")));
  one.poll();
  ASSERT_TRUE(one.send(1, 0, as_bytes("to itself")));
  one.poll();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
}

TEST(NodeHandlers, SetWhileOneRunsHoldFromTheNextPollOn) {
  node one{1};
  std::string got;
  one.on_message([&](const message&) {
    got += 'a';
    one.on_message([&](const message&) { got += 'b'; });
  });
  for (int polls = 0; polls != 2; ++polls) {
    for (int i = 0; i != 2; ++i)
      ASSERT_TRUE(one.send(1, 0, as_bytes("to itself")));
    one.poll();
  }
  EXPECT_EQ(got, "aabb");
}

TEST(NodeHandlers, OfACommandAreReplacedWhileItRuns) {
  node one{1};
  std::string got;
  one.on_command("look", [&](command& what) {
    got += 'a';
    one.on_command("look", [&](command& again) {
      got += 'b';
      EXPECT_TRUE(again.reply({}));
    });
    EXPECT_TRUE(what.reply({}));
  });
  for (int polls = 0; polls != 2; ++polls) {
    ASSERT_TRUE(one.command(1, {"look"}, 1s, [](status, const command_reply&) {}));
    one.poll();
  }
  EXPECT_EQ(got, "ab");
}

}  // namespace
}  // namespace atbus
