// Rounds of two nodes that are killed and started again, stopped and continued, told to leave and come
// back, and cut off from each other, at random moments, with traffic both ways. When all goes on
// undisturbed again, every message has exactly one outcome:
//
//   accepted = delivered + not delivered + unknown
//
// What an earlier incarnation may have handled comes marked; no incarnation gets a message twice, or out of order;
// and of a sender that was killed a prefix arrives.
//
//   ATBUS_ROUNDS=200 ATBUS_SEED=4711 bin/stress_node_test    rounds of each kind, and the first seed
//
// A seed repeats the random choices, not the kernel's.
#include <iostream>

#include "from_environment.h"
#include "scratch_directory.h"
#include "test.h"
#include "two_nodes.h"

namespace atbus::test {
namespace {

struct rounds_kind {
  const char* name;
  way through;
};

class Rounds : public ::testing::TestWithParam<rounds_kind> {};

TEST_P(Rounds, LeaveEveryMessageWithOneOutcome) {
  const std::uint64_t rounds = from_environment("ATBUS_ROUNDS", 10);
  const std::uint64_t first = from_environment("ATBUS_SEED", std::random_device{}());
  std::cout << "seed: ATBUS_SEED=" << first << std::endl;
  ledger_figures figures;
  disturbances happened;
  for (std::uint64_t seed = first; seed != first + rounds; ++seed) {
    const scratch_directory directory;
    std::mt19937_64 random{seed};
    node_crew crew{two_nodes(GetParam().through, random, directory.path()), random};
    crew.disturb();
    ASSERT_EQ(crew.settle(), "") << "ATBUS_ROUNDS=1 ATBUS_SEED=" << seed;
    figures += crew.book().figures();
    happened += crew.happened();
  }
  if (rounds >= 10) {
    EXPECT_GT(figures.delivered, 10 * rounds);
  }
  std::cout << rounds << " rounds: " << happened.text() << "; " << figures.text() << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Rounds,
                         ::testing::Values(rounds_kind{"shm", way::shm},
                                           rounds_kind{"lanes", way::lanes},
                                           rounds_kind{"unix", way::unix_socket},
                                           rounds_kind{"ipv4", way::ipv4},
                                           rounds_kind{"ipv6", way::ipv6},
                                           rounds_kind{"tcp_then_shm", way::tcp_then_shm}),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
