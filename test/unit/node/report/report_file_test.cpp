// The file of a report: there while its node lives, kept when its process is killed, and whole at any time.
#include "node/report/report_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>

#include "child_process.h"
#include "node/report/report_format.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::detail {
namespace {

using test::child_process;

class ReportFile : public ::testing::Test {
 protected:
  static node_report report_of(std::uint64_t incarnation, std::uint64_t messages = 0) {
    node_report made;
    made.id = bus_id{0x2a};
    made.incarnation = incarnation;
    made.stats.accepted = messages;
    return made;
  }
  [[nodiscard]] report_file::owner make(std::uint64_t incarnation) const {
    auto made = report_file::make(directory_.path(), report_of(incarnation));
    EXPECT_TRUE(made) << made.error().text();
    return made ? std::move(*made) : nullptr;
  }
  [[nodiscard]] std::vector<node_report_file> list() const {
    auto all = list_node_reports(directory_.path());
    EXPECT_TRUE(all);
    return all ? *all : std::vector<node_report_file>{};
  }
  // A process that makes such a file, and is killed.
  void leave(std::uint64_t incarnation) const {
    child_process left{[&] {
      const auto made = report_file::make(directory_.path(), report_of(incarnation));
      test::require(static_cast<bool>(made), "a report");
      raise(SIGKILL);
      return 0;
    }};
    EXPECT_EQ(left.wait_end(), "signal 9");
  }

  test::scratch_directory directory_;
};

TEST_F(ReportFile, IsThereWhileItsNodeLives) {
  {
    const auto made = make(7);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(directory_.files(), std::vector<std::string>{"atbus-node.0x2a-0x7"});
    for (std::uint64_t messages = 1; messages != 5; ++messages) {
      EXPECT_TRUE(made->write(report_of(7, messages)));
      const auto found = list();
      ASSERT_EQ(found.size(), 1U);
      EXPECT_TRUE(found[0].problem) << found[0].problem.text();
      EXPECT_TRUE(found[0].alive);
      EXPECT_EQ(found[0].report.stats.accepted, messages);
    }
  }
  EXPECT_TRUE(directory_.files().empty());
}

TEST_F(ReportFile, StaysWhenItsProcessIsKilled) {
  leave(7);
  const auto found = list();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].problem);
  EXPECT_FALSE(found[0].alive);
  EXPECT_EQ(found[0].report.incarnation, 7U);
}

TEST_F(ReportFile, OfTheLastDeadIncarnationStaysBesideThatOfTheNext) {
  // The times of files are those of the kernel's last tick.
  for (const std::uint64_t incarnation : {1U, 2U, 3U}) {
    leave(incarnation);
    std::this_thread::sleep_for(20ms);
  }
  const auto next = make(4);
  EXPECT_EQ(directory_.files(),
            (std::vector<std::string>{"atbus-node.0x2a-0x3", "atbus-node.0x2a-0x4"}));
}

TEST_F(ReportFile, OfALivingNodeIsNeverRemovedByAnother) {
  const auto first = make(1);
  const auto second = make(2);
  const auto third = make(3);
  EXPECT_EQ(list().size(), 3U);
}

// The lock belongs to what fork shares: a child that kept it would make a dead node look alive.
TEST_F(ReportFile, IsNotKeptAliveByAForkedChild) {
  test::shared<test::shared_counter> forked;
  pid_t grandchild = 0;
  child_process owner{[&] {
    const auto made = report_file::make(directory_.path(), report_of(1));
    test::require(static_cast<bool>(made), "a report");
    const pid_t parent = getpid();  // here: it may end as soon as it has heard of the child
    grandchild = fork();
    if (grandchild == 0) {
      // The parent's: nothing that is done here changes its file.
      test::require(!(*made)->write(report_of(1, 99)), "it can't be written");
      forked->add();
      while (getppid() == parent)
        usleep(1000);
      usleep(500'000);  // time for the test to look while this process lives
      _exit(0);
    }
    test::require(forked->wait(1), "a child");
    raise(SIGKILL);
    return 0;
  }};
  EXPECT_EQ(owner.wait_end(), "signal 9");
  const auto found = list();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].alive);
  EXPECT_EQ(found[0].report.stats.accepted, 0U);
}

// A fork that waits for an end to come goes on as soon as it may.
TEST_F(ReportFile, EndsWhileAnotherThreadForks) {
  auto made = make(1);
  ASSERT_NE(made, nullptr);
  static const kernel_calls saved_calls = kernel();
  static std::thread forking_thread;
  static std::string end_of_forked;
  kernel().unlinkat = [](int directory, const char* path, int flags) {
    std::promise<void> promise;
    const auto has_forked = promise.get_future();
    forking_thread = std::thread{[promise = std::move(promise)]() mutable {
      child_process child{[] { return 0; }};
      promise.set_value();
      end_of_forked = child.wait_end();
    }};
    (void)has_forked.wait_for(100ms);
    return saved_calls.unlinkat(directory, path, flags);
  };
  made.reset();
  kernel() = saved_calls;
  forking_thread.join();
  EXPECT_EQ(end_of_forked, "exit 0");
}

TEST_F(ReportFile, KeepsTheReportBeforeIfThereIsNoRoom) {
  const auto made = make(1);
  ASSERT_TRUE(made->write(report_of(1, 10)));
  {
    const auto before = kernel().pwrite;
    kernel().pwrite = [](int fd, const void* data, std::size_t length, off_t offset) {
      // Half of it finds room.
      static bool wrote;
      if (std::exchange(wrote, true)) {
        errno = ENOSPC;
        return ssize_t{-1};
      }
      return ::pwrite(fd, data, length / 2, offset);
    };
    EXPECT_FALSE(made->write(report_of(1, 11)));
    kernel().pwrite = before;
  }
  ASSERT_EQ(list().size(), 1U);
  EXPECT_EQ(list()[0].report.stats.accepted, 10U);
  EXPECT_TRUE(made->write(report_of(1, 12)));
  EXPECT_EQ(list()[0].report.stats.accepted, 12U);
}

TEST_F(ReportFile, IsNotMadeWhereItsSizeWouldEndTheProcess) {
  child_process limited{[&] {
    const rlimit most{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    test::require(setrlimit(RLIMIT_FSIZE, &most) == 0, "a limit");
    const auto made = report_file::make(directory_.path(), report_of(1));
    test::require(made.error() == errc::no_space, "it is refused");
    return 0;
  }};
  EXPECT_EQ(limited.wait_end(), "exit 0");
}

TEST_F(ReportFile, SaysWhereItCannotBeMade) {
  const auto made = report_file::make("/nonexistent", report_of(1));
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("/nonexistent"), std::string::npos) << made.error().text();
}

TEST_F(ReportFile, OfOthersIsRefusedWithTheReason) {
  const std::string path = directory_.path() + "/atbus-node.0x1-0x1";
  std::ofstream{path} << "garbage";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(list().size(), 1U);
  EXPECT_TRUE(list()[0].problem == errc::not_a_segment);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_TRUE(list()[0].problem == errc::wrong_mode);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", path.c_str()), 0);
  EXPECT_TRUE(list()[0].problem == errc::system_error);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(list()[0].problem == errc::not_a_segment);
}

TEST_F(ReportFile, OfADirectoryThatIsNotThereIsAnError) {
  EXPECT_FALSE(list_node_reports("/nonexistent"));
}

// The writer is killed in the midst of a report, again and again.
TEST_F(ReportFile, IsWholeWheneverItsWriterIsKilled) {
  for (int round = 0; round != 20; ++round) {
    test::shared<test::shared_counter> written;
    child_process writer{[&]() -> int {
      auto made = report_file::make(directory_.path(), report_of(1));
      test::require(static_cast<bool>(made), "a report");
      node_report large = report_of(1);
      large.peers.resize(1000);
      for (std::uint64_t messages = 1;; ++messages) {
        large.stats.accepted = messages;
        for (peer_report& one : large.peers)
          one.sent = messages;
        (void)(*made)->write(large);
        written->add();
      }
    }};
    ASSERT_TRUE(written->wait(10));
    writer.kill_and_wait();
    const auto found = list();
    ASSERT_EQ(found.size(), 1U);
    ASSERT_TRUE(found[0].problem) << found[0].problem.text();
    ASSERT_EQ(found[0].report.peers.size(), 1000U);
    EXPECT_EQ(found[0].report.peers.back().sent, found[0].report.stats.accepted);
    ASSERT_EQ(unlink(found[0].path.c_str()), 0);
  }
}

}  // namespace
}  // namespace atbus::detail
