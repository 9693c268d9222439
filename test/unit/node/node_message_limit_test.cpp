// Messages that are longer than a link takes, though the node at its other end takes longer ones.
#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "test.h"

namespace atbus {
namespace {

class NodeMessageLimit : public ::testing::TestWithParam<const char*> {
 protected:
  NodeMessageLimit() {
    one.on_undelivered([this](const undelivered& what) { reasons.push_back(what.reason()); });
    two.on_message([this](const message& what) { sizes.push_back(what.bytes().size()); });
  }
  ~NodeMessageLimit() override {
    for (const std::string part : {"segment.", "bell."})
      unlink(("/dev/shm/atbus-" + part + unique()).c_str());
  }
  static std::string unique() { return "atbus-limit-test-" + std::to_string(getpid()); }
  static std::string where() { return GetParam() + unique(); }
  bool turn(const std::function<bool()>& done) {
    for (const auto end = now() + 20s; !done() && now() < end;) {
      one.poll();
      two.poll();
    }
    return done();
  }

  node one{1};
  node two{2};
  std::vector<errc> reasons;
  std::vector<std::size_t> sizes;
};

TEST_P(NodeMessageLimit, ReportsAHeldMessageThatTheLinkDoesNotTakeAndGoesOn) {
  ASSERT_TRUE(two.listen(where() + "?message_limit=20000"));
  ASSERT_TRUE(one.connect(2, where()));
  ASSERT_TRUE(one.send(2, 0, std::string(30'000, 'x')));
  ASSERT_TRUE(one.send(2, 0, "short"));
  ASSERT_TRUE(turn([&] { return sizes.size() + reasons.size() == 2; }));
  EXPECT_EQ(reasons, std::vector{errc::message_too_large});
  EXPECT_EQ(sizes, std::vector<std::size_t>{5});
  EXPECT_EQ(one.send(2, 0, std::string(30'000, 'x')), errc::message_too_large);
}

// Which link it takes, and when, makes no difference to what is accepted.
TEST_P(NodeMessageLimit, OfOneAddressHoldsForLinksToOthersToo) {
  const std::string other = "unix://@" + unique();
  ASSERT_TRUE(two.listen(where() + "?message_limit=20000"));
  ASSERT_TRUE(two.listen(other));
  ASSERT_TRUE(one.connect(2, other));
  ASSERT_TRUE(one.send(2, 0, "short"));
  ASSERT_TRUE(turn([&] { return sizes.size() == 1; }));
  std::size_t longest = 30'000;
  while (!one.send(2, 0, std::string(longest, 'x')))
    --longest;
  EXPECT_LT(longest, 20'000U);
  EXPECT_GT(longest, 19'800U);
  ASSERT_TRUE(turn([&] { return sizes.size() == 2; }));
  EXPECT_TRUE(reasons.empty());
}

TEST_P(NodeMessageLimit, MustHaveRoomForAHandshake) {
  EXPECT_EQ(two.listen(where() + "?message_limit=1000"), errc::invalid_argument);
  EXPECT_TRUE(two.addresses().empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeMessageLimit, ::testing::Values("mem://", "shm://"),
                         [](const auto& kind) { return std::string{kind.param}.substr(0, 3); });

}  // namespace
}  // namespace atbus
