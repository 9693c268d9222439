// A worker that is killed and started again loses no order.
#include <set>

#include "sample_run.h"

namespace atbus {
namespace {

class HotRestart : public SampleRun, public ::testing::WithParamInterface<const char*> {
 protected:
  // The next order that is handled. What comes unmarked comes once, and in order.
  void read_order() {
    const std::string line = read_line();
    const int order = std::stoi(line);
    const bool marked = line.ends_with(" again");
    ASSERT_FALSE(line.ends_with("(no end)"));
    ASSERT_TRUE(marked || order > highest_) << line << " after " << highest_;
    highest_ = std::max(highest_, order);
    handled_.insert(order);
  }

  int highest_ = 0;
  std::set<int> handled_;
};

TEST_P(HotRestart, LosesNoOrder) {
  const std::string address = GetParam() + name_;
  child_process producer = start("hot_restart_producer", address.c_str());
  for (const std::size_t until : {1000U, 2000U, 5000U}) {
    child_process worker = start("hot_restart_worker", address.c_str());
    while (handled_.size() < until)
      ASSERT_NO_FATAL_FAILURE(read_order());
    if (until == 5000) {
      EXPECT_EQ(producer.wait_end(), "exit 0");
    }
    worker.kill_and_wait();
  }
  EXPECT_EQ(*handled_.begin(), 1);
  EXPECT_EQ(*handled_.rbegin(), 5000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HotRestart, ::testing::Values("shm://", "unix://@"),
                         [](const auto& kind) {
                           return std::string{kind.param}.substr(0,
                                                                 std::string{kind.param}.find(':'));
                         });

}  // namespace
}  // namespace atbus
