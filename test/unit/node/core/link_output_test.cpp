#include "node/core/link_output.h"

#include "unit/node/core/link_parts_fixture.h"

namespace atbus::detail {
namespace {

class LinkOutput : public link_parts {
 protected:
  void SetUp() override {
    path.of = &of;
    of.current = &path;
    for (int i = 0; i != 3; ++i) {
      held_message one;
      one.number = of.out.accept();
      of.out.hold(std::move(one));
    }
  }

  session& path = add_session();
  peer of{2, 0, node.timers};
};

TEST_F(LinkOutput, KeepsWhatALinkHasNoMemoryFor) {
  link_of(path).has_room = false;
  link_of(path).refuses_with = errc::out_of_memory;
  output.drain(of);
  EXPECT_EQ(of.out.held_messages(), 3U);
  EXPECT_EQ(node.stats.not_delivered, 0U);
  ASSERT_TRUE(of.expiry.pending());
  EXPECT_EQ(of.expiry.due(), clock.now() + 1ms);
  link_of(path).has_room = true;
  output.drain(of);
  EXPECT_FALSE(of.out.holds());
}

TEST_F(LinkOutput, ReportsWhatALinkNeverTakes) {
  link_of(path).has_room = false;
  link_of(path).refuses_with = errc::message_too_large;
  output.drain(of);
  EXPECT_FALSE(of.out.holds());
  EXPECT_EQ(node.stats.not_delivered, 3U);
}

}  // namespace
}  // namespace atbus::detail
