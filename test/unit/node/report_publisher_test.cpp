// When a node writes its report, and how long it may sleep until then.
#include "node/report_publisher.h"

#include <thread>

#include "node/report/report_file.h"
#include "scratch_directory.h"
#include "system/kernel.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class ReportPublisher : public ::testing::Test {
 protected:
  ~ReportPublisher() override { kernel() = saved_; }

  // At that time after the first report. True: the node has written another one.
  bool writes_at(std::chrono::nanoseconds when) {
    net_.run_for(begun_ + when - net_.now());
    one_.core().poll(poll_limits{});
    const std::uint64_t before = last_report();
    publisher_.publish_if_due(one_.core());
    return last_report() != before;
  }
  [[nodiscard]] std::chrono::nanoseconds sleep_at(std::chrono::nanoseconds when) {
    net_.run_for(begun_ + when - net_.now());
    return publisher_.longest_sleep(one_.core());
  }
  // Each write takes so long from now on.
  static void slow_down(std::chrono::nanoseconds time) {
    write_takes_ = time;
    kernel().pwrite = [](int fd, const void* from, std::size_t size, off_t at) {
      std::this_thread::sleep_for(write_takes_);
      return ::pwrite(fd, from, size, at);
    };
  }
  // Changes what a report shows.
  void work() { ASSERT_TRUE(one_.send(1, "to itself")); }

  test::scratch_directory directory_;
  simulated_network net_{1};
  party one_{net_, 1};
  const std::chrono::nanoseconds begun_ = net_.now();
  report_publisher publisher_{directory_.path(), one_.core()};

 private:
  [[nodiscard]] std::uint64_t last_report() const {
    const auto all = list_node_reports(directory_.path());
    return all && all->size() == 1 ? all->front().report.updated_at : 0;
  }

  static inline std::chrono::nanoseconds write_takes_{0};
  const kernel_calls saved_ = kernel();
};

TEST_F(ReportPublisher, WritesEveryFiveSecondsWithoutAChange) {
  EXPECT_EQ(sleep_at(0s), 5s);
  EXPECT_FALSE(writes_at(4s));
  EXPECT_EQ(sleep_at(4s), 1s);
  EXPECT_TRUE(writes_at(5s));
  EXPECT_EQ(sleep_at(5s), 5s);
}

TEST_F(ReportPublisher, WritesSoonAfterAChange) {
  work();
  EXPECT_FALSE(writes_at(200ms));
  EXPECT_EQ(sleep_at(200ms), 50ms);
  EXPECT_TRUE(writes_at(250ms));
}

// A node that is polled now and then looks each 250 ms. It would not look again before that.
TEST_F(ReportPublisher, LetsItsNodeSleepUntilItLooksAgain) {
  EXPECT_FALSE(writes_at(4900ms));
  EXPECT_EQ(sleep_at(5050ms), 100ms);
  EXPECT_FALSE(writes_at(5100ms));
  EXPECT_TRUE(writes_at(5150ms));
}

// Reports that take 20 ms each are 20 s apart.
TEST_F(ReportPublisher, LetsItsNodeSleepAfterSlowReports) {
  slow_down(20ms);
  std::vector<std::chrono::nanoseconds> written;
  for (std::chrono::nanoseconds when = 250ms; when < 100s; when += 250ms) {
    work();
    if (writes_at(when))
      written.push_back(when);
  }
  ASSERT_GE(written.size(), 6U);
  EXPECT_GE(written.back() - written[written.size() - 2], 20s);
  for (std::chrono::nanoseconds when = 100s; when < 160s; when += 500ms) {
    if (const auto sleep = sleep_at(when); sleep == 0s)
      EXPECT_TRUE(writes_at(when)) << "it is not to sleep, and has nothing to do";
    else
      EXPECT_FALSE(writes_at(when));
  }
}

// Its process was stopped meanwhile, or others had the processor.
TEST_F(ReportPublisher, WritesSoonAfterAReportThatWasInterrupted) {
  slow_down(50ms);
  EXPECT_TRUE(writes_at(5s));
  slow_down(0ms);
  work();
  EXPECT_TRUE(writes_at(5500ms));
  work();
  EXPECT_TRUE(writes_at(5750ms));
}

}  // namespace
}  // namespace atbus::detail
