#include "atbus/bench/cpus.h"

#include <stdexcept>

#include "test.h"

namespace atbus::bench {
namespace {

TEST(Cpus, GiveTheFirstToTheReceiverAndTheRestToTheSendersInTurn) {
  const std::vector<int> cpus{4, 5, 7};
  EXPECT_EQ(cpu_of_worker(cpus, 0), 4);
  EXPECT_EQ(cpu_of_worker(cpus, 1), 5);
  EXPECT_EQ(cpu_of_worker(cpus, 2), 7);
  EXPECT_EQ(cpu_of_worker(cpus, 3), 5);
}

TEST(Cpus, AreSharedWhenThereIsOnlyOne) {
  EXPECT_EQ(cpu_of_worker({3}, 0), 3);
  EXPECT_EQ(cpu_of_worker({3}, 1), 3);
}

TEST(Cpus, ReadsTheAllowedOnes) {
  const int first = allowed_cpus().front();
  EXPECT_EQ(parse_cpus(std::to_string(first)), std::vector<int>{first});
  const std::string twice = std::to_string(first) + "," + std::to_string(first);
  EXPECT_EQ(parse_cpus(twice), (std::vector<int>{first, first}));
  const std::string range = std::to_string(first) + "-" + std::to_string(first);
  EXPECT_EQ(parse_cpus(range), std::vector<int>{first});
}

TEST(Cpus, RefusesWhatIsNoListOfCores) {
  for (const char* const text :
       {"", ",", "0,", "x", "1-0", "-1", "0x0", "0 ", "99999999999", "0--1"}) {
    EXPECT_THROW(parse_cpus(text), std::invalid_argument) << text;
  }
}

TEST(Cpus, RefusesACoreThatIsNotOurs) {
  EXPECT_THROW(parse_cpus("4000"), std::invalid_argument);
}

}  // namespace
}  // namespace atbus::bench
