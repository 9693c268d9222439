// What a message between two nodes allocates, once they are under way: nothing of its own.
#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "counting_allocator.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::uint64_t messages_a_round = 100;
constexpr int rounds = 200;

class NodeAllocation : public ::testing::TestWithParam<const char*> {
 protected:
  std::string where() const {
    const std::string kind = GetParam();
    return kind.find("ipv6") == 0 ? kind : kind + "allocation-test-" + std::to_string(getpid());
  }
  void poll_all() {
    one.poll();
    between.poll();
    two.poll();
  }
  void poll_until(std::uint64_t wanted) {
    for (const auto until = now() + 20s; handled != wanted && now() < until;)
      poll_all();
    ASSERT_EQ(handled, wanted);
  }
  void run_rounds(const std::string& text) {
    for (int round = 0; round != rounds; ++round) {
      const std::uint64_t before = handled;
      for (std::uint64_t i = 0; i != messages_a_round; ++i)
        ASSERT_TRUE(one.send(two.id(), 7, text));
      ASSERT_NO_FATAL_FAILURE(poll_until(before + messages_a_round));
    }
  }
  void expect_no_allocations() {
    two.on_message([this](const message&) { ++handled; });
    const std::string text(200, 'x');
    ASSERT_TRUE(one.send(two.id(), 7, text));
    ASSERT_NO_FATAL_FAILURE(poll_until(1));
    ASSERT_NO_FATAL_FAILURE(run_rounds(text));
    const std::uint64_t before = test::allocations();
    ASSERT_NO_FATAL_FAILURE(run_rounds(text));
    // What an acknowledgement takes, or a chunk of 4 KiB, is no matter; a batch has 18 messages.
    EXPECT_LT(test::allocations() - before, rounds * messages_a_round / 25);
  }

  const node_options plain = node_options{}.allow_unauthenticated();
  std::uint64_t handled = 0;
  node one{1, plain};
  node two{2, plain};
  node between{64, node_options{plain}.children("64/58")};
};

TEST_P(NodeAllocation, MessagesTakeNone) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  ASSERT_TRUE(two.listen(where()));
  ASSERT_TRUE(one.connect(2, two.addresses().front()));
  expect_no_allocations();
}

TEST_P(NodeAllocation, RequestsAndTheirResponsesTakeNone) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  ASSERT_TRUE(two.listen(where()));
  ASSERT_TRUE(one.connect(2, two.addresses().front()));
  two.on_request(7, [](request& r) {
    // Every fourth is answered after it was moved out.
    if (r.bytes().size() % 4 != 0)
      return static_cast<void>(r.reply(r.bytes()));
    request later = r.detach();
    later.reply("later");
  });
  const std::string text(203, 'x');
  std::uint64_t replies = 0;
  const auto ask_all = [&] {
    for (int round = 0; round != rounds; ++round) {
      const std::uint64_t before = handled;
      for (std::uint64_t i = 0; i != messages_a_round; ++i)
        ASSERT_TRUE(one.request(two.id(), 7, std::string_view{text}.substr(i % 4), 20s,
                                [this, &replies](const response& r) {
                                  ++handled;
                                  replies += r ? 1 : 0;
                                }));
      ASSERT_NO_FATAL_FAILURE(poll_until(before + messages_a_round));
    }
  };
  ASSERT_NO_FATAL_FAILURE(ask_all());
  const std::uint64_t before = test::allocations();
  ASSERT_NO_FATAL_FAILURE(ask_all());
  EXPECT_LT(test::allocations() - before, rounds * messages_a_round / 25);
  EXPECT_EQ(replies, 2 * rounds * messages_a_round);
}

// The two listen nowhere, so that there is no other way.
TEST_P(NodeAllocation, MessagesOverARelayTakeNone) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  ASSERT_TRUE(between.listen(where()));
  const node_options child = node_options{plain}.parent(between.addresses().front());
  one = node{65, child};
  two = node{66, child};
  for (const auto until = now() + 20s; now() < until && between.endpoints().size() != 2;)
    poll_all();
  expect_no_allocations();
  EXPECT_GT(between.stats().relayed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeAllocation,
                         ::testing::Values("mem://", "unix://@", "ipv6://[::1]:0"),
                         [](const auto& kind) {
                           return std::string{kind.param}.substr(0,
                                                                 std::string{kind.param}.find(':'));
                         });

}  // namespace
}  // namespace atbus
