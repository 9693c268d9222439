#include "atbus/bench/memory_gate.h"

#include "test.h"

namespace atbus::bench {
namespace {

constexpr std::uint64_t gate_limit = 1000;

TEST(MemoryGate, IsOpenWithoutALimit) {
  memory_gate gate{memory_gate::no_limit};
  gate.measured(memory_gate::no_limit - 1, 7);
  EXPECT_FALSE(gate.is_bounded());
  EXPECT_FALSE(gate.has_closed());
}

TEST(MemoryGate, IsOpenWhileTheDataIsFarFromTheLimit) {
  memory_gate gate{gate_limit};
  gate.measured(799, 50);
  EXPECT_FALSE(gate.has_closed());
  EXPECT_EQ(gate.most(), memory_gate::no_limit);
}

TEST(MemoryGate, LetsNoMoreInThanThereAreWhenTheDataIsHigh) {
  memory_gate gate{gate_limit};
  gate.measured(800, 50);
  EXPECT_EQ(gate.most(), 50U);
  gate.measured(800, 50);
  EXPECT_EQ(gate.most(), 50U) << "the data has not grown";
}

TEST(MemoryGate, LowersTheNumberWhileTheDataGrows) {
  memory_gate gate{gate_limit};
  gate.measured(800, 64);
  gate.measured(801, 64);
  EXPECT_EQ(gate.most(), 60U);
}

TEST(MemoryGate, RaisesTheNumberOnceMemoryWasGivenBack) {
  memory_gate gate{gate_limit};
  gate.measured(800, 64);
  gate.measured(699, 63);
  EXPECT_EQ(gate.most(), 64U) << "more would not be used";
  gate.measured(699, 64);
  EXPECT_EQ(gate.most(), 66U);
  gate.measured(750, 66);
  EXPECT_EQ(gate.most(), 66U);
}

TEST(MemoryGate, LowersTheNumberWhenAnAllocationFails) {
  memory_gate gate{gate_limit};
  gate.failed(40);
  EXPECT_EQ(gate.most(), 30U);
}

TEST(MemoryGate, LetsOneInAlways) {
  memory_gate gate{gate_limit};
  gate.measured(800, 0);
  EXPECT_EQ(gate.most(), 1U);
  gate.failed(1);
  EXPECT_EQ(gate.most(), 1U);
}

}  // namespace
}  // namespace atbus::bench
