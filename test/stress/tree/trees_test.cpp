// Trees of nodes that are processes of their own, with traffic between pairs of them, through the
// nodes between them. Leaves, relays and the root are killed and started again, stopped and continued,
// told to leave and come back, and cut off, at random moments. When all goes on undisturbed again,
// every node reaches every other one, and every message has exactly one outcome:
//
//   accepted = delivered + not delivered + unknown (+ open at nodes that were killed)
//
//   ATBUS_ROUNDS=20 ATBUS_NODES=40 ATBUS_SEED=4711 bin/stress_tree_test
//
// tools/script/soak.sh runs it for long. A seed repeats the random choices, not the kernel's.
#include <ctime>
#include <iostream>

#include "from_environment.h"
#include "random_tree.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {
namespace {

constexpr std::uint32_t fewest_nodes = 8;

TEST(Trees, LeaveEveryMessageWithOneOutcome) {
  const std::uint64_t rounds = from_environment("ATBUS_ROUNDS", 0);
  if (rounds == 0)
    GTEST_SKIP() << "ATBUS_ROUNDS says how many; tools/script/soak.sh runs them";
  const std::uint64_t first = from_environment("ATBUS_SEED", std::random_device{}());
  const auto most_nodes = static_cast<std::uint32_t>(from_environment("ATBUS_NODES", fewest_nodes));
  ASSERT_GE(most_nodes, fewest_nodes);
  ASSERT_LE(most_nodes, most_roles);
  for (std::uint64_t seed = first; seed != first + rounds; ++seed) {
    const scratch_directory directory;
    std::mt19937_64 random{seed};
    const auto nodes =
        fewest_nodes + static_cast<std::uint32_t>(random() % (most_nodes - fewest_nodes + 1));
    node_crew crew{plan_of(random_tree(nodes, random), random, directory.path()), random};
    crew.disturb();
    const std::string wrong = crew.settle();
    std::cout << "seed " << seed << ": " << nodes << " nodes, " << crew.happened().text() << "; "
              << crew.book().figures().text() << std::endl;
    ASSERT_EQ(wrong, "") << "ATBUS_ROUNDS=1 ATBUS_NODES=" << most_nodes << " ATBUS_SEED=" << seed;
  }
}

//        0
//     1     2      1 is stopped
//    3 4   5
//    6
TEST(Trees, GoOnBesideARelayThatIsStopped) {
  const tree_shape tree{0, 0, 0, 1, 1, 2, 3};
  const std::uint64_t seed = from_environment("ATBUS_SEED", std::random_device{}());
  const auto seconds = static_cast<time_t>(from_environment("ATBUS_TEST_SECONDS", 1));
  const scratch_directory directory;
  std::mt19937_64 random{seed};
  crew_plan plan = plan_of(tree, random, directory.path());
  for (member_plan& member : plan.members)
    member.longest_turn_us = 100'000;  // there is traffic all the time
  plan.members[0].partners = {5};
  plan.members[5].partners = {0};
  node_crew crew{std::move(plan), random};
  const auto goes_on = [&](std::uint32_t role) {
    shared_counter& handled = crew.book().handled(role);
    return handled.wait(handled.get() + 100);
  };
  ASSERT_TRUE(goes_on(6));
  crew.toggle(1);
  const timespec pause{.tv_sec = seconds, .tv_nsec = 0};
  nanosleep(&pause, nullptr);
  ASSERT_TRUE(crew.book().may_send()) << "there is no room in the ledger for what is to go on";
  EXPECT_TRUE(goes_on(0));
  EXPECT_TRUE(goes_on(5));
  const std::string wrong = crew.settle();
  std::cout << "seed " << seed << ": a relay was stopped for " << seconds << " s; "
            << crew.book().figures().text() << std::endl;
  ASSERT_EQ(wrong, "") << "ATBUS_SEED=" << seed;
}

}  // namespace
}  // namespace atbus::test
