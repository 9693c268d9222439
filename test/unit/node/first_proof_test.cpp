// The library that computes proofs sets itself up when it computes the first one, and does not survive a lack of
// memory then. Each try has a process of its own, in which nothing was computed before.
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "child_process.h"
#include "counting_allocator.h"
#include "from_environment.h"
#include "test.h"

namespace atbus {
namespace {

constexpr const char* good_allocations = "ATBUS_TEST_GOOD_ALLOCATIONS";

TEST(FirstProof, NeedsNoMemoryOnceTheNodeIsMadeFork) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  for (const char* good : {"10", "20", "40", "60", "80", "100", "200", "400"}) {
    test::child_process one{[good] {
      setenv(good_allocations, good, 1);
      execl("/proc/self/exe", "unit_node_test", "--gtest_brief=1",
            "--gtest_filter=FirstProof.DISABLED_OfThisProcess", "--gtest_also_run_disabled_tests",
            nullptr);
      return 1;
    }};
    EXPECT_EQ(one.wait_end(), "exit 0") << good;
  }
}

TEST(FirstProof, DISABLED_OfThisProcess) {
  const std::uint64_t good = test::from_environment(good_allocations, 0);
  const auto options =
      node_options{}.allow_unauthenticated().retry(1ms, 2ms).first_idle_timeout(100ms);
  node from{1, options};
  node to{2, options};
  const std::string at = "mem://first-proof-" + std::to_string(getpid());
  ASSERT_TRUE(to.listen(at));
  ASSERT_TRUE(from.connect(2, at));
  const auto is_connected = [&] {
    const auto all = from.endpoints();
    return !all.empty() && all.front().connected();
  };
  for (int step = 0; step != 10; ++step) {
    for (node* one : {&from, &to}) {
      const test::allocation_failure next{good, 1};
      try {
        one->poll();
      } catch (const std::bad_alloc&) {
      }
    }
  }
  for (const auto end = now() + 5s; !is_connected() && now() < end;) {
    from.poll();
    to.poll();
  }
  EXPECT_TRUE(is_connected());
}

}  // namespace
}  // namespace atbus
