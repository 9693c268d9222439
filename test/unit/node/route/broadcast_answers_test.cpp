// What the sender of a broadcast is told of those that it reached.
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class BroadcastAnswers : public tree_of_six {};

TEST_F(BroadcastAnswers, NameNobodyThatWasSilent) {
  two->node.stop_until(net.now() + 30s);
  std::vector<std::vector<bus_id>> told;
  ASSERT_TRUE(one->node.user().broadcast(*id_range::parse("64/58"), 7, as_bytes("all"), 1s,
                                         [&](const auto& ids) { told.push_back(ids); }));
  one->node.wake();
  net.run_for(40s);
  ASSERT_EQ(told.size(), 1U);
  std::sort(told[0].begin(), told[0].end());
  EXPECT_EQ(told[0], (std::vector<bus_id>{64, 80, 96, 97}));
  EXPECT_EQ(two->got.size(), 1U);  // later than it was asked for
}

TEST_F(BroadcastAnswers, AreAwaitedForSixtyFourAtATime) {
  int told = 0;
  const auto ask = [&] {
    const status how = one->node.user().broadcast(*id_range::parse("64/58"), 7, as_bytes("all"), 1s,
                                                  [&](const auto&) { ++told; });
    one->node.wake();
    return how;
  };
  for (int i = 0; i != 64; ++i)
    ASSERT_TRUE(ask()) << i;
  EXPECT_EQ(ask(), errc::would_block);
  net.run_for(2s);
  EXPECT_EQ(told, 64);
  EXPECT_TRUE(ask());
  net.run_for(2s);
  EXPECT_EQ(told, 65);
}

TEST_F(BroadcastAnswers, NeedSomebodyWhomTheyCanBeToldTo) {
  EXPECT_EQ(one->node.user().broadcast(*id_range::parse("64/58"), 7, as_bytes("all"), 1s, {}),
            errc::invalid_argument);
  one->node.wake();
  net.run_for(1s);
  EXPECT_TRUE(two->got.empty());
}

}  // namespace
}  // namespace atbus::detail
