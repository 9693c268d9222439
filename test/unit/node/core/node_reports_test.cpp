// What waits to be told between two polls takes a bounded amount of memory.
#include <malloc.h>

#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

constexpr std::size_t queue_bytes = 64 * 1024;
constexpr std::size_t reports_bytes = 1024 * 1024;
constexpr std::uint64_t reports_wanted = 100'000;

// Bytes that this program has allocated; 0 in a build that counts none.
std::size_t allocated() {
  return ::mallinfo2().uordblks;
}

class NodeReports : public ::testing::TestWithParam<overflow_policy> {
 protected:
  // So many messages for a node that is not there, without a poll. Returns what they take.
  std::size_t send_many() {
    EXPECT_TRUE(from.connect(2, "unix://@atbus-nobody-listens-here"));
    const std::string text(1000, 'x');
    const std::size_t before = allocated();
    for (std::uint64_t i = 0; i != reports_wanted; ++i)
      EXPECT_TRUE(from.send(2, 0, text));
    const std::size_t after = allocated();
    return after - std::min(after, before);
  }

  node from{1, node_options{}.overflow(GetParam()).send_buffer_size(queue_bytes)};
};

TEST_P(NodeReports, AreNotKeptWhereNobodyIsTold) {
  EXPECT_LT(send_many(), 2 * queue_bytes);
  EXPECT_GT(from.stats().overflow_drops, reports_wanted - 100);
  EXPECT_EQ(from.stats().not_delivered, from.stats().overflow_drops);
}

TEST_P(NodeReports, BeyondAQueueOfThemAreCountedInOne) {
  std::vector<std::uint64_t> numbers;
  std::uint64_t told = 0;
  std::uint64_t with_bytes = 0;
  from.on_undelivered([&](const undelivered& what) {
    EXPECT_EQ(what.reason(), errc::would_block);
    EXPECT_EQ(what.outcome(), errc::not_delivered);
    EXPECT_EQ(what.destination(), bus_id{2});
    numbers.push_back(what.number());
    told += what.count();
    with_bytes += what.bytes().size() == 1000 ? 1 : 0;
  });
  EXPECT_LT(send_many(), reports_bytes + 4 * queue_bytes);
  from.poll();
  EXPECT_EQ(told, from.stats().overflow_drops);
  EXPECT_EQ(told, from.stats().not_delivered);
  EXPECT_GT(with_bytes, reports_bytes / 1500);
  EXPECT_EQ(numbers.size(), with_bytes + 1);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  // There is room for them again.
  ASSERT_TRUE(from.send(2, 0, std::string(1000, 'y')));
  from.poll();
  EXPECT_EQ(with_bytes + 1, numbers.size());
  EXPECT_EQ(told, from.stats().overflow_drops);
}

INSTANTIATE_TEST_SUITE_P(Policies, NodeReports,
                         ::testing::Values(overflow_policy::drop_newest,
                                           overflow_policy::drop_oldest),
                         [](const auto& policy) {
                           return policy.param == overflow_policy::drop_newest ? "drop_newest"
                                                                               : "drop_oldest";
                         });

// That can't be told anything.
class deaf_directory final : public directory {
 public:
  std::vector<std::string> lookup(bus_id) override { return {}; }
  watch_id watch(std::function<void(bus_id)>) override { return 1; }
  void unwatch(watch_id) override {}
  error announce(const directory_record&) override { return errc::system_error; }
  error poll() override { return {}; }
};

TEST(NodeNews, KeepsSoManyLinesForALogAndSaysHowManyItHasLeftOut) {
  simulated_network net{1};
  party one{net, 1, plain().directory(std::make_shared<deaf_directory>())};
  net.run_for(1ms);
  one.log.clear();
  for (int port = 1; port <= 3000; ++port)
    ASSERT_TRUE(one.core().listen("ipv4://10.0.0.1:" + std::to_string(port)));
  one.node.user().poll();
  EXPECT_EQ(one.log.size(), 1001U);
  EXPECT_EQ(one.log.back(), "2000 more lines were left out");
  one.log.clear();
  ASSERT_TRUE(one.core().listen("ipv4://10.0.0.1:3001"));
  one.node.user().poll();
  EXPECT_EQ(one.log.size(), 1U);
}

TEST(NodeNews, LetsSoManyWaitForAPeer) {
  simulated_network net{1};
  party one{net, 1};
  std::uint64_t called = 0;
  std::uint64_t waiting = 0;
  error refused;
  while (waiting < 100'000 &&
         (refused = one.core().on_ready(bus_id{2}, 1s, [&](status) { ++called; })))
    ++waiting;
  EXPECT_EQ(waiting, 4096U);
  EXPECT_EQ(refused, errc::would_block);
  net.run_for(2s);
  EXPECT_EQ(called, waiting);
  EXPECT_TRUE(one.core().on_ready(bus_id{2}, 1s, [](status) {}));
}

}  // namespace
}  // namespace atbus::detail
