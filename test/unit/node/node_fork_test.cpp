// What a forked child has of its parent's nodes: none of their descriptors.
#include <sys/eventfd.h>

#include <optional>
#include <utility>
#include <vector>

#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "atbus/sleep.hpp"
#include "atbus/task.hpp"
#include "atbus/topic.hpp"
#include "child_process.h"
#include "plain_coroutine.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

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

// What waits is the parent's, and it has it still.
TEST(NodeFork, HandlesAndTellsNothingInTheChild) {
  node one{1, node_options{}.report_directory("")};
  int calls = 0;
  const auto called = [&](auto&&...) { ++calls; };
  one.on_message(called);
  one.on_request(called);
  one.on_undelivered(called);
  one.on_log(called);
  ASSERT_TRUE(one.send(1, 0, "to itself"));
  ASSERT_TRUE(one.request(1, 7, "to itself", 5s, called));
  ASSERT_TRUE(one.command(1, {"to", "itself"}, 5s, called));
  ASSERT_TRUE(one.on_ready(77, 10s, called));
  one.spawn([](node& of, int& woken) -> task<> {
    (void)co_await of.sleep(0ns);
    ++woken;
  }(one, calls));
  test::child_process child{[&] {
    for (int i = 0; i != 3; ++i) {
      if (one.poll() != 0)
        return 1;
    }
    if (one.send(1, 0, "again") != errc::used_after_fork ||
        one.send(9, 0, "elsewhere") != errc::used_after_fork)
      return 2;
    one.close();
    return calls == 0 ? 0 : 3;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  for (int i = 0; i != 3; ++i)
    one.poll();
  one.close();
  EXPECT_GE(calls, 5);
}

// It has nothing to cancel there when it is destroyed behind its node.
TEST(NodeFork, LetsACoroutineThatWaitsForAnswersEndBehindTheNode) {
  using coroutine = test::plain_coroutine;
  std::optional<node> one{std::in_place, bus_id{1}, node_options{}.report_directory("")};
  ASSERT_TRUE(one->connect(2, "mem://node-fork-nobody-test"));
  const coroutine asks = [](node& of) -> coroutine {
    (void)co_await of.request(2, 7, "question", 60s);
  }(*one);
  const coroutine gathers = [](node& of) -> coroutine {
    std::vector<bus_id> all{bus_id{2}};
    (void)co_await of.gather(std::move(all), 7, as_bytes("question"), 1, 60s);
  }(*one);
  ASSERT_FALSE(asks.frame.done());
  ASSERT_FALSE(gathers.frame.done());
  test::child_process child{[&] {
    one.reset();
    asks.frame.destroy();
    gathers.frame.destroy();
    return 0;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  asks.frame.destroy();
  gathers.frame.destroy();
}

TEST(NodeFork, PublishesAndSubscribesNothingInTheChild) {
  node one{1, node_options{}.report_directory("")};
  int handled = 0;
  ASSERT_TRUE(one.subscribe("news", [&](const topic_message&) { ++handled; }));
  topic news{one, "news"};
  test::child_process child{[&] {
    if (news.publish(0, "in the child").how() != errc::used_after_fork)
      return 1;
    if (one.subscribe("other", [](const topic_message&) {}).code() != errc::used_after_fork)
      return 2;
    return one.unsubscribe("news").code() == errc::used_after_fork ? 0 : 3;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  EXPECT_TRUE(news.publish(0, "in the parent"));
  one.poll();
  EXPECT_EQ(handled, 1);
}

}  // namespace
}  // namespace atbus
