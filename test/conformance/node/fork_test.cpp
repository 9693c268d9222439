// A process with nodes that forks: they are the parent's alone.
#include <unistd.h>

#include "child_process.h"
#include "node_fixture.h"

namespace atbus::test {
namespace {

class NodeFork : public NodeFixture {};

TEST_P(NodeFork, LeavesTheChildANodeThatDoesNothing) {
  connect_both();
  ASSERT_TRUE(first->send(2, 0, "before"));
  ASSERT_TRUE(first->send(2, 0, "again"));
  child_process child{[&] {
    require(!first->send(2, 0, "of the child"), "a child's node sends");
    first->poll();
    second->poll();
    require(second_log.messages.empty(), "a child's node delivers");
    require(first->wait(0s) == errc::used_after_fork, "a child's node waits");
    require(first->run() == errc::used_after_fork, "a child's node runs");
    require(first->shutdown(patience) == errc::used_after_fork, "a child's node shuts down");
    first.reset();
    second.reset();
    return 0;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  ASSERT_TRUE(first->send(2, 0, "after"));
  ASSERT_TRUE(second->send(1, 0, "back"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return second_log.messages.size() >= 3 && first_log.messages.size() == 1;
  }));
  EXPECT_EQ(second_log.messages, (std::vector<std::string>{"before", "again", "after"}));
  EXPECT_EQ(first->stats().links_lost + second->stats().links_lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeFork, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
