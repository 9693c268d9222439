// What a forked child has of its parent's nodes: none of their descriptors.
#include <sys/eventfd.h>

#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "child_process.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

// A directory that nobody is in, with a descriptor.
class watchable_directory final : public directory {
 public:
  std::vector<std::string> lookup(bus_id) override { return {}; }
  watch_id watch(std::function<void(bus_id)>) override { return 1; }
  void unwatch(watch_id) override {}
  error announce(const directory_record&) override { return {}; }
  error withdraw(bus_id) override {
    ++withdrawals;
    return {};
  }
  int descriptor() const noexcept override { return changed_.get(); }
  error poll() override { return {}; }

  int withdrawals = 0;

 private:
  detail::file changed_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

std::string end_of_a_child_that_has_at_most(std::size_t most) {
  test::child_process child{[=] { return test::open_descriptors() <= most ? 0 : 1; }};
  return child.wait_end();
}

TEST(NodeFork, LeavesTheChildNoneOfTheChannelsDescriptors) {
  const auto before = test::open_descriptors();
  node one{1, node_options{}.report_directory("")};
  ASSERT_TRUE(one.listen("mem://node-fork-test"));
  ASSERT_GT(test::open_descriptors(), before);
  EXPECT_EQ(end_of_a_child_that_has_at_most(before), "exit 0");
}

TEST(NodeFork, LeavesTheChildNoDescriptorThatWatchesTheDirectory) {
  const auto nodes = std::make_shared<watchable_directory>();
  const auto before = test::open_descriptors();
  node one{1, node_options{}.directory(nodes).report_directory("")};
  ASSERT_GT(test::open_descriptors(), before);
  EXPECT_EQ(end_of_a_child_that_has_at_most(before), "exit 0");
}

// It is the parent that is announced.
TEST(NodeFork, WithdrawsNothingInTheChild) {
  const auto nodes = std::make_shared<watchable_directory>();
  node one{1, node_options{}.directory(nodes).report_directory("")};
  ASSERT_TRUE(one.listen("mem://node-fork-directory-test"));
  test::child_process child{[&] {
    one.close();
    return nodes->withdrawals;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  one.close();
  EXPECT_EQ(nodes->withdrawals, 1);
}

}  // namespace
}  // namespace atbus
