// A directory with a descriptor: nodes know of its changes at once, in whatever way they are driven.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include <cstdio>
#include <set>

#include "node_fixture.h"

namespace atbus::test {
namespace {

// In the test's hands. Counts what it costs.
class pushed_nodes final : public directory {
 public:
  ~pushed_nodes() override { ::close(changed_); }
  void list(bus_id id, std::string address) {
    nodes_[id] = {std::move(address)};
    fresh_.push_back(id);
    eventfd_write(changed_, 1);
  }
  [[nodiscard]] int polls() const { return polls_; }

  std::vector<std::string> lookup(bus_id id) override {
    const auto found = nodes_.find(id);
    return found != nodes_.end() ? found->second : std::vector<std::string>{};
  }
  watch_id watch(std::function<void(bus_id)> changed) override {
    watchers_[++watches_] = std::move(changed);
    return watches_;
  }
  void unwatch(watch_id which) override { watchers_.erase(which); }
  error announce(const directory_record&) override { return {}; }
  int descriptor() const noexcept override { return changed_; }
  error poll() override {
    ++polls_;
    eventfd_t count = 0;
    eventfd_read(changed_, &count);
    for (const bus_id id : std::exchange(fresh_, {})) {
      for (const auto& [which, tell] : watchers_)
        tell(id);
    }
    return {};
  }

 private:
  int changed_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::map<bus_id, std::vector<std::string>> nodes_;
  std::vector<bus_id> fresh_;
  std::map<watch_id, std::function<void(bus_id)>> watchers_;
  watch_id watches_ = 0;
  int polls_ = 0;
};

// Each test: node 1 sends to node 2, whose address is wrong at first. It dials the right one when it hears of
// it; the looks of every 2 s would come too late.
class NodeDirectoryPush : public ::testing::Test {
 protected:
  static constexpr auto soon = 500ms;

  NodeDirectoryPush() {
    there_.on_message([this](const message&) { ++got_; });
    EXPECT_TRUE(there_.listen("unix://@atbus-push-test-" + std::to_string(getpid())));
  }
  [[nodiscard]] node_options options() const {
    return node_options{}.directory(nodes_).report_directory("").retry(5ms, 10ms);
  }
  void send_into_the_void(node& from) {
    nodes_->list(2, "unix://@atbus-push-test-nobody-" + std::to_string(getpid()));
    ASSERT_TRUE(from.send(2, 0, "hello"));
    for (int i = 0; i != 20; ++i)
      from.poll();
  }
  [[nodiscard]] std::string address() const { return there_.addresses().at(0); }
  // How long it takes until the message is there; `turn` drives node 1.
  [[nodiscard]] std::chrono::nanoseconds arrives(const std::function<void()>& turn) {
    const auto begin = now();
    while (got_ == 0 && now() < begin + 10s) {
      turn();
      there_.poll();
    }
    return now() - begin;
  }

  // Nothing but the directory has work for the node.
  [[nodiscard]] bool sleeps_until_polled(const std::function<void()>& turn) const {
    const int before = nodes_->polls();
    for (const auto end = now() + 10s; nodes_->polls() == before && now() < end;)
      turn();
    return nodes_->polls() != before;
  }

  std::shared_ptr<pushed_nodes> nodes_ = std::make_shared<pushed_nodes>();
  node there_{2, node_options{}.report_directory("")};
  int got_ = 0;
};

TEST_F(NodeDirectoryPush, EndsTheSleepOfANodeThatWaits) {
  node here{1, options()};
  here.poll();
  nodes_->list(2, address());
  const auto begin = now();
  EXPECT_TRUE(sleeps_until_polled([&] {
    here.wait(5s);
    here.poll();
  }));
  EXPECT_LT(now() - begin, soon);
}

TEST_F(NodeDirectoryPush, ReachesANodeThatIsOnlyPolled) {
  node here{1, options()};
  send_into_the_void(here);
  nodes_->list(2, address());
  EXPECT_LT(arrives([&] { here.poll(); }), soon);
}

TEST_F(NodeDirectoryPush, WakesTheLoopOfTheProgramThroughTheNodesDescriptor) {
  node here{1, options()};
  send_into_the_void(here);
  for (int i = 0; i != 100; ++i)
    here.poll();
  ASSERT_TRUE(here.prepare_sleep());
  pollfd asleep{here.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&asleep, 1, 0), 0);
  nodes_->list(2, address());
  EXPECT_EQ(::poll(&asleep, 1, 0), 1);
  here.finish_sleep();
}

TEST_F(NodeDirectoryPush, WakesANodeOnALibuvLoop) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  {
    const node here{1, options().loop(&loop)};
    uv_run(&loop, UV_RUN_NOWAIT);
    nodes_->list(2, address());
    const auto begin = now();
    EXPECT_TRUE(sleeps_until_polled([&] { uv_run(&loop, UV_RUN_ONCE); }));
    EXPECT_LT(now() - begin, soon);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

// The first to look leaves nothing for the other one to see.
TEST_F(NodeDirectoryPush, WakesEachNodeThatSharesTheDirectory) {
  node here{1, options()};
  node also_here{3, options()};
  send_into_the_void(here);
  const auto asleep_still = [](node& of) {
    pollfd asleep{of.descriptor(), POLLIN, 0};
    return ::poll(&asleep, 1, 0) == 0;
  };
  for (int i = 0; i != 100; ++i)
    also_here.poll();
  const auto settled = now() + 1s;
  while (!asleep_still(here) && now() < settled)
    here.poll();
  nodes_->list(2, address());
  const int before = nodes_->polls();
  while (nodes_->polls() == before)
    also_here.poll();
  EXPECT_FALSE(asleep_still(here));
  EXPECT_LT(arrives([&] { here.poll(); }), soon);
}

TEST_F(NodeDirectoryPush, CostsNoLookWhileNothingChanges) {
  node here{1, options()};
  here.poll();
  const int before = nodes_->polls();
  const auto end = now() + 100ms;
  while (now() < end)
    here.poll();
  EXPECT_EQ(nodes_->polls(), before);
}

TEST_F(NodeDirectoryPush, LeavesTheDescriptorAloneWhenTheNodeHasEnded) {
  node here{1, options()};
  here.close();
  nodes_->list(2, address());
  pollfd asleep{here.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&asleep, 1, 0), 0);
}

}  // namespace
}  // namespace atbus::test
