// Removing what no living process holds, and nothing else.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <thread>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/inspect.hpp"
#include "child_process.h"
#include "segment_file.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using ::testing::Test;

class Clean : public test::SegmentFile {
 protected:
  clean_report clean(clean_options options = {}) {
    options.directory = directory.path();
    auto report = clean_segment("zone", options);
    EXPECT_TRUE(report) << report.error().text();
    return report ? *report : clean_report{};
  }
  // A socket as a dead receiver leaves it; or, while the result lives, as a living one has it.
  [[nodiscard]] detail::file bind_bell(const std::string& file_name) const {
    detail::file fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path(file_name).copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd.get(), 4), 0);
    return fd;
  }
  using files = std::vector<std::string>;
};

TEST_F(Clean, LeavesALiveSegmentAndSaysWhoseItIs) {
  auto inbox = open_receiver();
  auto out = open_sender();
  drain(inbox);
  const auto report = clean({.force = true});
  EXPECT_EQ(report.outcome, clean_outcome::held);
  EXPECT_NE(report.why.find("receiver '"), std::string::npos) << report.why;
  EXPECT_NE(report.why.find("pid " + std::to_string(getpid())), std::string::npos) << report.why;
  EXPECT_NE(report.why.find("sender in lane 0"), std::string::npos) << report.why;
  ASSERT_TRUE(out.send(as_bytes("still there")));
  EXPECT_EQ(drain(inbox), 1U);
}

TEST_F(Clean, LeavesASegmentThatOnlyASenderHolds) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("for a successor")));
  inbox.close();
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::held);
  auto successor = open_receiver();
  EXPECT_EQ(drain(successor), 1U);
}

TEST_F(Clean, RemovesAnOrphanAndCountsWhatWentWithIt) {
  leave_behind({"one", "three"});
  const auto report = clean();
  EXPECT_EQ(report.outcome, clean_outcome::removed);
  EXPECT_EQ(report.undelivered_messages, 2U);
  EXPECT_EQ(report.undelivered_bytes, 8U);
  EXPECT_TRUE(report.counted);
  EXPECT_EQ(report.removed, (files{path("atbus-segment.zone"), path("atbus-bell.zone")}));
  EXPECT_EQ(directory.files(), files{});
}

TEST_F(Clean, HandledMessagesDoNotCount) {
  {
    auto inbox = open_receiver();
    auto out = open_sender();
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(out.send(as_bytes("x")));
    EXPECT_EQ(inbox.poll([](bytes_view) {}, {.messages = 3}), 3U);
  }
  EXPECT_EQ(clean().undelivered_messages, 2U);
}

TEST_F(Clean, SaysThatALaneMadeNoSense) {
  leave_behind({"one"});
  spoil_slot(0, offsetof(detail::lane_slot, tail), 4);
  const auto report = clean();
  EXPECT_EQ(report.outcome, clean_outcome::removed);
  EXPECT_FALSE(report.counted);
}

TEST_F(Clean, MarksRetiredWhatItRemoves) {
  leave_behind({});
  const detail::file late{open(segment_path().c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_EQ(clean().outcome, clean_outcome::removed);
  std::uint64_t retired = 0;
  ASSERT_EQ(pread(late.get(), &retired, sizeof retired, offsetof(detail::segment_header, retired)),
            static_cast<ssize_t>(sizeof retired));
  EXPECT_EQ(retired, 1U);
}

TEST_F(Clean, FinishesWhatADeadRemoverBegan) {
  leave_behind({});
  spoil(offsetof(detail::segment_header, retired), std::uint64_t{1});
  EXPECT_EQ(clean().outcome, clean_outcome::removed);
  EXPECT_EQ(directory.files(), files{});
}

TEST_F(Clean, DryRunChangesNothing) {
  leave_behind({"one"});
  make_file("atbus-segment.garbage", "garbage");
  { (void)bind_bell("atbus-bell.alone"); }
  const auto before = directory.files();
  const auto bytes = content();
  const auto reports =
      clean_segments({.directory = directory.path(), .force = true, .dry_run = true});
  ASSERT_TRUE(reports);
  ASSERT_EQ(reports->size(), 3U);
  for (const clean_report& report : *reports) {
    EXPECT_EQ(report.outcome, clean_outcome::removed) << report.name << report.why;
    EXPECT_FALSE(report.removed.empty());
  }
  EXPECT_EQ(directory.files(), before);
  EXPECT_EQ(content(), bytes);
}

TEST_F(Clean, SaysWhatIsMissing) {
  const clean_options here{.directory = directory.path()};
  EXPECT_EQ(clean_segment("zone", here).error(), errc::not_found);
  EXPECT_EQ(clean_segment("a/b", here).error(), errc::invalid_name);
  EXPECT_EQ(clean_segments({.directory = directory.path() + "/none"}).error(), errc::not_found);
}

// --- what is no segment

TEST_F(Clean, GarbageGoesOnlyByForce) {
  make_file("atbus-segment.zone", "garbage");
  const auto report = clean();
  EXPECT_EQ(report.outcome, clean_outcome::invalid);
  EXPECT_NE(report.why.find("no atbus segment"), std::string::npos) << report.why;
  EXPECT_EQ(directory.files(), files{"atbus-segment.zone"});
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::removed);
  EXPECT_EQ(directory.files(), files{});
}

TEST_F(Clean, GarbageThatIsLockedStays) {
  make_file("atbus-segment.zone", "garbage");
  const detail::file owner{open(segment_path().c_str(), O_RDWR | O_CLOEXEC)};
  ASSERT_EQ(detail::try_lock_byte(owner.get(), 70), detail::lock_state::taken);
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::held);
  EXPECT_EQ(directory.files(), files{"atbus-segment.zone"});
}

TEST_F(Clean, LiveSegmentOfAnotherVersionStays) {
  auto inbox = open_receiver();
  spoil(8, std::uint32_t{77});
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::held);
}

TEST_F(Clean, LinkIsRemovedAndNotItsTarget) {
  make_file("target", "precious");
  ASSERT_EQ(symlink(path("target").c_str(), segment_path().c_str()), 0);
  EXPECT_EQ(clean().outcome, clean_outcome::invalid);
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::removed);
  EXPECT_EQ(directory.files(), files{"target"});
}

TEST_F(Clean, DirectoryStays) {
  ASSERT_EQ(mkdir(segment_path().c_str(), 0700), 0);
  const auto report = clean({.force = true});
  EXPECT_EQ(report.outcome, clean_outcome::failed);
  EXPECT_NE(report.why.find("can't remove"), std::string::npos) << report.why;
}

// --- bells

TEST_F(Clean, BellOfNoSegmentIsRemoved) {
  { (void)bind_bell("atbus-bell.zone"); }
  { (void)bind_bell("atbus-bell.zone~"); }
  EXPECT_EQ(clean().outcome, clean_outcome::removed);
  EXPECT_EQ(directory.files(), files{});
}

TEST_F(Clean, BellThatIsAnsweredStays) {
  const auto alive = bind_bell("atbus-bell.zone");
  EXPECT_EQ(clean({.force = true}).outcome, clean_outcome::held);
  EXPECT_EQ(directory.files(), files{"atbus-bell.zone"});
}

TEST_F(Clean, UnfinishedBellGoesWithItsSegment) {
  leave_behind({});
  { (void)bind_bell("atbus-bell.zone~"); }
  EXPECT_EQ(clean().outcome, clean_outcome::removed);
  EXPECT_EQ(directory.files(), files{});
}

// --- all at once, and while others come

TEST_F(Clean, AllOfThemSparesTheLiving) {
  leave_behind({"x"});
  auto alive = open_receiver("alive");
  make_file("atbus-segment.garbage", "garbage");
  make_file("atbus-segment.~ no name", "garbage");
  { (void)bind_bell("atbus-bell.alone"); }
  const auto reports = clean_segments({.directory = directory.path()});
  ASSERT_TRUE(reports);
  EXPECT_EQ(directory.files(), (files{"atbus-bell.alive", "atbus-segment.alive",
                                      "atbus-segment.garbage", "atbus-segment.~ no name"}));
  ASSERT_EQ(reports->size(), 5U);
  const auto forced = clean_segments({.directory = directory.path(), .force = true});
  ASSERT_TRUE(forced);
  EXPECT_EQ(directory.files(), (files{"atbus-bell.alive", "atbus-segment.alive"}));
}

std::atomic<bool> is_cleaning{false};
std::atomic<bool> has_forked{false};
std::atomic<bool> waited_in_vain{false};

// unlinkat that waits for a fork.
int unlink_behind_a_fork(int at, const char* path, int flags) {
  if (!is_cleaning.exchange(true)) {
    for (const auto limit = now() + 10s; !has_forked && now() < limit;)
      std::this_thread::yield();
    waited_in_vain = !has_forked;
  }
  return ::unlinkat(at, path, flags);
}

TEST_F(Clean, LetsForksPassAndKeepsNoLockInAChild) {
  leave_behind({"one"});
  const detail::file seen{open(segment_path().c_str(), O_RDWR | O_CLOEXEC)};
  ASSERT_TRUE(seen);
  is_cleaning = has_forked = false;
  const auto before = std::exchange(detail::kernel().unlinkat, unlink_behind_a_fork);
  clean_report report;
  std::thread cleaner{[&] { report = clean(); }};
  for (const auto limit = now() + 20s; !is_cleaning && now() < limit;)
    std::this_thread::yield();
  EXPECT_EQ(detail::query_byte(seen.get(), detail::receiver_lock_byte),
            detail::lock_state::held_elsewhere);
  test::child_process child{[] { return pause(); }};
  has_forked = true;
  cleaner.join();
  EXPECT_FALSE(waited_in_vain) << "the fork waited for it";
  detail::kernel().unlinkat = before;
  EXPECT_EQ(report.outcome, clean_outcome::removed);
  EXPECT_EQ(report.undelivered_messages, 1U);
  // The child lives, and gives up the locks as soon as it runs.
  const auto lock = [&] { return detail::query_byte(seen.get(), detail::receiver_lock_byte); };
  for (const auto limit = now() + 20s; lock() != detail::lock_state::taken && now() < limit;)
    std::this_thread::yield();
  EXPECT_EQ(lock(), detail::lock_state::taken);
}

TEST_F(Clean, RacesNoReceiverOutOfItsSegment) {
  std::atomic<bool> stop{false};
  std::thread cleaner{[&] {
    while (!stop)
      (void)clean_segments({.directory = directory.path(), .force = true});
  }};
  int opened = 0;
  for (int round = 0; round < 300; ++round) {
    auto inbox = receiver::open(
        "shm://zone",
        {.lanes = 2, .lane_size = 4096, .message_limit = 1024, .directory = directory.path()});
    if (!inbox) {
      EXPECT_EQ(inbox.error(), errc::receiver_exists) << inbox.error().text();
      continue;
    }
    ++opened;
    auto out = sender::open("shm://zone", {.directory = directory.path()});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_TRUE(out->send(as_bytes("x")));
    EXPECT_EQ(drain(*inbox), 1U);
    EXPECT_TRUE(access(path("atbus-bell.zone").c_str(), F_OK) == 0);
  }
  stop = true;
  cleaner.join();
  EXPECT_GT(opened, 0);
  EXPECT_TRUE(clean_segments({.directory = directory.path()}));
  EXPECT_EQ(directory.files(), files{});
}

}  // namespace
}  // namespace atbus
