// Something else in place of the segment: other kinds of file, other owners, other modes, names
// that lead elsewhere. Refused by both sides; nothing is opened, followed, waited for or made.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

constexpr uid_t other_user = 65534;

class FileInPlaceOfASegment : public hostile_channel {
 protected:
  void expect_refusal(errc code, std::initializer_list<std::string> facts) {
    const auto in = receiver::open("shm://victim", receiving());
    const auto out = sender::open("shm://victim", sending());
    ASSERT_FALSE(in);
    ASSERT_FALSE(out);
    for (const error& e : {in.error(), out.error()}) {
      EXPECT_EQ(e.code(), code) << e.text();
      for (const std::string& fact : facts)
        EXPECT_NE(e.text().find(fact), std::string::npos) << "'" << fact << "' in: " << e.text();
    }
  }
  [[nodiscard]] std::string path() const { return directory_.segment_path("victim"); }
};

TEST_F(FileInPlaceOfASegment, ThatIsASymbolicLinkIsNotFollowed) {
  open_receiver("shm://other").close();
  ASSERT_EQ(symlink(directory_.segment_path("other").c_str(), path().c_str()), 0);
  expect_refusal(errc::not_a_segment, {path(), "symbolic link"});
}

TEST_F(FileInPlaceOfASegment, ThatIsADanglingLinkMakesNothingAtItsTarget) {
  const std::string target = directory_.path() + "/made-by-mistake";
  ASSERT_EQ(symlink(target.c_str(), path().c_str()), 0);
  expect_refusal(errc::not_a_segment, {path(), "symbolic link"});
  EXPECT_NE(access(target.c_str(), F_OK), 0);
}

TEST_F(FileInPlaceOfASegment, ThatIsAFifoDoesNotBlock) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  expect_refusal(errc::not_a_segment, {path(), "regular file"});
}

TEST_F(FileInPlaceOfASegment, ThatIsADirectoryIsNoSegment) {
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);
  expect_refusal(errc::not_a_segment, {path(), "regular file"});
}

TEST_F(FileInPlaceOfASegment, ThatIsASocketIsNoSegment) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(path().size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path().c_str(), path().size());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refusal(errc::not_a_segment, {path(), "regular file"});
  ::close(fd);
}

TEST_F(FileInPlaceOfASegment, ThatIsADeviceIsNoSegment) {
  if (mknod(path().c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
    GTEST_SKIP() << "may not make device files here";
  const int fd = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    GTEST_SKIP() << "may not open device files here";
  ::close(fd);
  expect_refusal(errc::not_a_segment, {path(), "regular file"});
}

TEST_F(FileInPlaceOfASegment, ThatOthersMayTouchIsRefusedWithBothModes) {
  open_receiver().close();
  for (const mode_t mode : {0660U, 0640U, 0606U, 0604U, 0601U, 0666U}) {
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
    const std::string digits{static_cast<char>('0' + (mode >> 6 & 7)),
                             static_cast<char>('0' + (mode >> 3 & 7)),
                             static_cast<char>('0' + (mode & 7))};
    expect_refusal(errc::wrong_mode, {"0" + digits, "0600"});
  }
}

TEST_F(FileInPlaceOfASegment, OfAnotherUserIsRefusedWithBothUsers) {
  open_receiver().close();
  if (chown(path().c_str(), other_user, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root may give files away";
  expect_refusal(errc::wrong_owner, {std::to_string(other_user), std::to_string(geteuid())});
}

TEST_F(FileInPlaceOfASegment, OfAnotherUserIsRefusedWithBothUsersThoughItCanNotBeOpened) {
  open_receiver().close();
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  ATBUS_IN_CHILD([this] {
    const uid_t owner = geteuid();
    if (seteuid(other_user) != 0)
      skip_child("only root may become another user");
    expect_refusal(errc::wrong_owner, {std::to_string(owner), std::to_string(other_user)});
  });
}

TEST_F(FileInPlaceOfASegment, ThatItsOwnUserMayNotWriteIsRefusedWithBothModes) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 01777), 0);
  ATBUS_IN_CHILD([this] {
    if (geteuid() == 0 && seteuid(other_user) != 0)
      skip_child("root may write everything");
    open_receiver().close();
    ASSERT_EQ(chmod(path().c_str(), 0400), 0);
    expect_refusal(errc::wrong_mode, {"0400", "0600"});
  });
}

TEST_F(FileInPlaceOfASegment, IsRefusedByTheNameAloneWhereItCouldLeadElsewhere) {
  using namespace std::string_literals;
  const std::string addresses[] = {
      "shm://a/b"s,
      "shm:///etc/passwd"s,
      "shm://../victim"s,
      "shm://.."s,
      "shm://."s,
      "shm://a\0b"s,
      "shm://-a"s,
      "shm://a b"s,
      "shm://\x1b[31m"s,
      "shm://a%2fb"s,
      "shm://"s,
      "shm://" + std::string(65, 'a'),
      "shm://\xc3\xa9"s,
      "shm://a\\..\\b"s,
      "shm://" + std::string(100'000, 'a'),
      "mem://a/b"s,
      "mem://"s + "a\0b"s,
      "shm://a?lanes=4294967297"s,
      "shm://a\n"s,
      "shm://a?lane_size=9999G",
      "shm://a?message_limit=18446744073709551615"s,
  };
  for (const std::string& address : addresses) {
    const auto in = receiver::open(address, receiver_options{.directory = directory_.path()});
    const auto out = sender::open(address, sending());
    ASSERT_FALSE(in) << address;
    ASSERT_FALSE(out) << address;
    EXPECT_TRUE(is_printable(in.error().text())) << in.error().text();
    EXPECT_TRUE(is_printable(out.error().text())) << out.error().text();
  }
  EXPECT_TRUE(names_in(directory_.path()).empty());
}

TEST_F(FileInPlaceOfASegment, MayHaveTheLongestNameThereIs) {
  const std::string address = "shm://" + std::string(64, 'n');
  receiver in = open_receiver(address.c_str());
  sender out = open_sender(address.c_str());
  ASSERT_TRUE(out.send(as_bytes("through a long name")));
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
}

}  // namespace
}  // namespace atbus::hostile
