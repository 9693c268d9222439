// A thousand nodes of one address whose links to a node end at the same moment: the limits for strangers are
// no hindrance to them.
#include <ctime>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "reserved_port.h"
#include "sanitizer.h"
#include "stranger_crowd.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::string_view rebuild_secret = "the secret of a thousand nodes";
#if defined(ATBUS_TEST_SANITIZER)
constexpr std::size_t links_at_once = 200;
#else
constexpr std::size_t links_at_once = 1000;
#endif
constexpr bus_id hub_id{0x10000};

std::unique_ptr<node> open_hub(const std::string& where) {
  auto made = std::make_unique<node>(hub_id, node_options{}.token(rebuild_secret));
  const error listened = made->listen(where);
  EXPECT_TRUE(listened) << listened.text();
  return made;
}

// Its nodes are polled by a thread of their own.
class node_crowd {
 public:
  explicit node_crowd(const std::string& where) {
    for (std::size_t i = 0; i != links_at_once; ++i) {
      nodes_.push_back(std::make_unique<node>(bus_id{i + 1}, node_options{}.token(rebuild_secret)));
      EXPECT_TRUE(nodes_.back()->connect(hub_id, where));
    }
    thread_ = std::thread{[this] {
      while (!stops_) {
        for (const auto& one : nodes_)
          one->poll();
      }
    }};
  }
  ~node_crowd() {
    stops_ = true;
    thread_.join();
  }
  node_crowd(const node_crowd&) = delete;
  node_crowd& operator=(const node_crowd&) = delete;

 private:
  std::vector<std::unique_ptr<node>> nodes_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

std::chrono::milliseconds until_all_are_there(node& hub) {
  const auto begin = now();
  while (hub.stats().registrations < links_at_once && now() - begin < 60s) {
    hub.poll();
  }
  EXPECT_GE(hub.stats().registrations, links_at_once);
  return std::chrono::duration_cast<std::chrono::milliseconds>(now() - begin);
}

TEST(Rebuild, AThousandLinksOfOneAddressAreThereAgainSoon) {
  if (!test::may_open_descriptors(8 * links_at_once))  // each node takes some
    GTEST_SKIP() << "too few descriptors are allowed (ulimit -Hn)";
  const test::reserved_port port{"ipv4://127.0.0.1:0"};
  auto hub = open_hub(port.address());
  const node_crowd crowd{port.address()};
  const auto first = until_all_are_there(*hub);
  hub.reset();
  hub = open_hub(port.address());
  const std::clock_t cpu = std::clock();
  const auto again = until_all_are_there(*hub);
  std::printf("%zu links: %lld ms at first, %lld ms again (%.2f s CPU time of both ends)\n",
              links_at_once, static_cast<long long>(first.count()),
              static_cast<long long>(again.count()),
              static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  EXPECT_LT(again, 20s);
  EXPECT_EQ(hub->stats().strangers.crowded, 0U);
  EXPECT_EQ(hub->stats().registrations_failed, 0U);
}

}  // namespace
}  // namespace atbus
