// Directories that are full, nearly full, absent, read-only or of another kind: a clear error that
// says how much was wanted and how much was free, never SIGBUS, nothing half made, and all well
// again when there is room.
//
// Each test mounts a small tmpfs in a mount namespace of a child process.
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

constexpr std::uint64_t page = 4096;

class SmallTmpfs : public hostile_channel {
 protected:
  // In the child only.
  void mount_here(const std::string& options) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, options.c_str()) != 0) {
      skip_child("may not mount a tmpfs here");
    }
  }
  [[nodiscard]] std::uint64_t free_bytes() const {
    struct statvfs fs {};
    EXPECT_EQ(statvfs(directory_.path().c_str(), &fs), 0);
    return fs.f_bavail * fs.f_frsize;
  }
  // Fills the directory until so much is left.
  void fill_but(std::uint64_t left) const {
    const int fd = ::open(filler().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_GE(free_bytes(), left);
    struct stat st {};
    ASSERT_EQ(fstat(fd, &st), 0);
    const auto wanted = static_cast<off_t>(free_bytes() - left);
    if (wanted != 0) {
      ASSERT_EQ(fallocate(fd, 0, st.st_size, wanted), 0);
    }
    ::close(fd);
    ASSERT_EQ(free_bytes(), left);
  }
  void make_room() const { unlink(filler().c_str()); }
  [[nodiscard]] std::string filler() const { return directory_.path() + "/filler"; }
  [[nodiscard]] std::vector<std::string> names() const { return names_in(directory_.path()); }
  static void expect_no_space(const error& e, std::uint64_t wanted, std::uint64_t free) {
    EXPECT_EQ(e.code(), errc::no_space) << e.text();
    EXPECT_NE(e.text().find(std::to_string(wanted)), std::string::npos) << e.text();
    EXPECT_NE(e.text().find(std::to_string(free) + " bytes free"), std::string::npos) << e.text();
  }
  void expect_works(receiver& in, sender& out) {
    std::vector<std::string> got;
    const std::string message(900, 'm');
    for (int i = 0; i < 20; ++i) {  // several laps: every page of the lane
      ASSERT_TRUE(out.send(as_bytes(message)));
      EXPECT_TRUE(
          poll_until(in, got, [&] { return got.size() == static_cast<std::size_t>(i) + 1; }));
    }
  }
  // What a receiver of `lanes` lanes needs before any sender comes.
  static std::uint64_t table_bytes() {
    return detail::segment_geometry{lanes, lane_size, message_limit}.control_size();
  }
};

TEST_F(SmallTmpfs, ThatIsFullRefusesAReceiverAndKeepsNothing) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k");
    for (std::uint64_t left = 0; left < table_bytes(); left += page) {
      fill_but(left);
      const auto in = receiver::open("shm://victim", receiving());
      ASSERT_FALSE(in);
      expect_no_space(in.error(), table_bytes(), left);
      EXPECT_EQ(names(), std::vector<std::string>{"filler"});
      EXPECT_EQ(free_bytes(), left);
      make_room();
    }
    receiver in = open_receiver();
    sender out = open_sender();
    expect_works(in, out);
  });
}

TEST_F(SmallTmpfs, ThatIsFullRefusesASenderAndLeavesTheOthersAlone) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k");
    receiver in = open_receiver();
    sender first = open_sender();
    fill_but(0);
    const auto second = sender::open("shm://victim", sending());
    ASSERT_FALSE(second);
    expect_no_space(second.error(), lane_size, 0);
    expect_works(in, first);
    EXPECT_EQ(names(),
              (std::vector<std::string>{"atbus-bell.victim", "atbus-segment.victim", "filler"}));
    make_room();
    sender third = open_sender();
    expect_works(in, third);
    EXPECT_TRUE(problems_.empty());
  });
}

TEST_F(SmallTmpfs, ThatFillsUpAfterwardsDoesNotKillWhoIsAttached) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k");
    receiver in = open_receiver();
    sender out = open_sender();
    fill_but(0);
    expect_works(in, out);
    // A restart needs nothing new but the bell, which takes no page.
    out.close();
    in.close();
    in = open_receiver();
    sender again = open_sender();
    expect_works(in, again);
  });
}

TEST_F(SmallTmpfs, TakesALaneBackFromAFreedOneThatLiesAboutItsMemory) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k");
    receiver in = open_receiver();
    raw_segment file = raw();
    for (std::uint32_t i = 0; i < lanes; ++i)
      file.slot(i).reserved_bytes.store(lane_size);  // there is none
    fill_but(0);
    const auto out = sender::open("shm://victim", sending());
    ASSERT_FALSE(out);
    expect_no_space(out.error(), lane_size, 0);
    make_room();
    sender later = open_sender();
    fill_but(0);
    expect_works(in, later);
  });
}

TEST_F(SmallTmpfs, IsNotTouchedThroughALaneWithoutMemory) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k");
    receiver in = open_receiver();
    raw_segment file = raw();
    fill_but(0);
    file.slot(1).tail.store(2048);  // nothing is there, and nothing can be put there
    file.header().ready[0].store(2);
    std::vector<std::string> got;
    EXPECT_EQ(collect(in, got), 0U);
    ASSERT_EQ(problems_.size(), 1U) << "one cause, one report";
    EXPECT_EQ(problems_[0].code(), errc::no_space) << problems_[0].text();
    EXPECT_EQ(in.stats().quarantined, 0U) << "it may have its memory again";
    make_room();
    // What is there then was written by nobody: zeros.
    EXPECT_TRUE(poll_until(in, got, [&] { return in.stats().quarantined == 1; }));
    EXPECT_TRUE(got.empty());
    sender out = open_sender();
    expect_works(in, out);
  });
}

// Only its first page is there; the lane table and the lanes are holes.
TEST_F(SmallTmpfs, WithAFullHoleForALaneTableIsAnErrorNotASignal) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=512k");
    receiver_options o = receiving();
    o.lanes = 64;
    auto made = receiver::open("shm://victim", o);
    ASSERT_TRUE(made) << made.error().text();
    made->close();
    const detail::segment_geometry g = raw().geometry();
    {
      raw_segment file = raw();
      ASSERT_EQ(fallocate(file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(page), static_cast<off_t>(g.file_size() - page)),
                0);
    }
    fill_but(2 * page);
    const auto in = receiver::open("shm://victim", o);
    ASSERT_FALSE(in);
    expect_no_space(in.error(), g.control_size(), 2 * page);
    const auto out = sender::open("shm://victim", sending());
    ASSERT_FALSE(out);
    expect_no_space(out.error(), g.control_size(), 2 * page);
    make_room();
    auto later = receiver::open("shm://victim", o);
    ASSERT_TRUE(later) << later.error().text();
    sender meets = open_sender();
    expect_works(*later, meets);
  });
}

TEST_F(SmallTmpfs, HoldsAHugeGeometryAsLongAsNobodyTakesALane) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=6m");
    receiver_options huge = receiving();
    huge.lanes = detail::max_lanes;
    huge.lane_size = detail::max_lane_size;
    huge.message_limit = detail::max_message_limit;
    auto in = receiver::open("shm://victim", huge);
    if (!in && in.error().code() == errc::out_of_memory)
      skip_child("not enough address space for 4 TiB");
    ASSERT_TRUE(in) << in.error().text();
    in->on_problem([this](const error& e) { problems_.push_back(e); });
    const auto out = sender::open("shm://victim", sending());
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code(), errc::no_space) << out.error().text();
    EXPECT_NE(out.error().text().find(std::to_string(detail::max_lane_size)), std::string::npos);
    raw_segment file = raw();
    ASSERT_TRUE(file);
    file.slot(7).tail.store(1 << 20);
    file.slot(4095).tail.store(detail::max_lane_size);
    for (auto& word : file.header().ready)
      word.store(~std::uint64_t{0});
    std::vector<std::string> got;
    EXPECT_EQ(collect(*in, got), 0U);
    EXPECT_TRUE(in->remove());
    EXPECT_TRUE(names().empty());
  });
}

TEST_F(SmallTmpfs, WithoutInodesRefusesAReceiverAndKeepsNothing) {
  for (int inodes = 1; inodes <= 3; ++inodes) {
    ATBUS_IN_CHILD([this, inodes] {
      // One is the directory itself, one the segment, one the bell.
      mount_here("size=256k,nr_inodes=" + std::to_string(inodes));
      auto in = receiver::open("shm://victim", receiving());
      if (inodes == 3) {
        ASSERT_TRUE(in) << in.error().text();
        return;
      }
      ASSERT_FALSE(in);
      EXPECT_EQ(in.error().code(), errc::no_space) << in.error().text();
      EXPECT_NE(in.error().text().find("inode"), std::string::npos) << in.error().text();
      EXPECT_TRUE(names().empty());
    });
  }
}

TEST_F(SmallTmpfs, MountedReadOnlyIsAnError) {
  ATBUS_IN_CHILD([this] {
    mount_here("size=256k,ro");
    const auto in = receiver::open("shm://victim", receiving());
    ASSERT_FALSE(in);
    EXPECT_NE(in.error().text().find(directory_.path()), std::string::npos) << in.error().text();
  });
}

class OtherDirectory : public hostile_channel {
 protected:
  void expect_error_naming(const std::string& path) {
    receiver_options in_options = receiving();
    in_options.directory = path;
    sender_options out_options = sending();
    out_options.directory = path;
    const auto in = receiver::open("shm://victim", in_options);
    const auto out = sender::open("shm://victim", out_options);
    ASSERT_FALSE(in);
    ASSERT_FALSE(out);
    EXPECT_NE(in.error().text().find(path), std::string::npos) << in.error().text();
    EXPECT_NE(out.error().text().find(path), std::string::npos) << out.error().text();
  }
};

TEST_F(OtherDirectory, ThatDoesNotExistIsAnErrorThatNamesIt) {
  expect_error_naming(directory_.path() + "/absent");
}

TEST_F(OtherDirectory, ThatIsAFileIsAnErrorThatNamesIt) {
  const std::string path = directory_.path() + "/file";
  ::close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  expect_error_naming(path);
}

TEST_F(OtherDirectory, ThatIsNotWritableIsAnErrorThatNamesItAndGetsNothing) {
  ATBUS_IN_CHILD([this] {
    ASSERT_EQ(chmod(directory_.path().c_str(), 0555), 0);
    if (geteuid() == 0 && seteuid(65534) != 0)
      skip_child("root may write everywhere");
    expect_error_naming(directory_.path());
    EXPECT_TRUE(names_in(directory_.path()).empty());
  });
}

// Such as procfs, which can make no files at all.
TEST_F(OtherDirectory, ThatCanHoldNoFilesIsAnErrorThatNamesIt) {
  expect_error_naming("/proc/self");
}

// A disk is slow at worst: it works, or is refused with a reason.
TEST_F(OtherDirectory, ThatIsNoTmpfsWorksOrSaysWhyNot) {
  const private_directory elsewhere{std::filesystem::current_path().string()};
  if (elsewhere.path().empty())
    GTEST_SKIP() << "the working directory is not writable";
  receiver_options in_options = receiving();
  in_options.directory = elsewhere.path();
  sender_options out_options = sending();
  out_options.directory = elsewhere.path();
  auto in = receiver::open("shm://victim", in_options);
  if (!in) {
    EXPECT_NE(in.error().text().find(elsewhere.path()), std::string::npos) << in.error().text();
    EXPECT_TRUE(names_in(elsewhere.path()).empty());
    return;
  }
  auto out = sender::open("shm://victim", out_options);
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("over a disk")));
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(*in, got, [&] { return got.size() == 1; }));
}

}  // namespace
}  // namespace atbus::hostile
