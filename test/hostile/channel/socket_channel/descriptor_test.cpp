// Descriptors that an unproven peer sends through a Unix socket. Whoever closes the last one waits for what
// that closes: a TCP socket that lingers holds up a poll for as long as the unproven peer likes. So none
// comes in. Before Linux 6.16 a receiver can't say so.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "atbus/atbus.hpp"
#include "test.h"

namespace atbus {
namespace {

constexpr int pass_rights = 83;  // SO_PASSRIGHTS
constexpr uid_t nobody = 65534;

bool kernel_knows() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int off = 0;
  const bool known = setsockopt(fd, SOL_SOCKET, pass_rights, &off, sizeof off) == 0;
  close(fd);
  return known;
}

// What it comes to that a process sends a descriptor to an abstract name: 0, or errno.
int send_descriptor(const std::string& name, int type) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(to.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), length) != 0)
    return errno;
  char byte = 0;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

// The same, of another user.
int send_descriptor_as_nobody(const std::string& name, int type) {
  const pid_t child = fork();
  if (child == 0)
    _exit(setuid(nobody) != 0 ? 255 : send_descriptor(name, type));
  int how = 0;
  waitpid(child, &how, 0);
  return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

std::string fresh_name() {
  return "atbus-descriptors-" + std::to_string(getpid());
}

std::set<std::string> abstract_names() {
  std::set<std::string> all;
  std::ifstream table{"/proc/net/unix"};
  for (std::string line; std::getline(table, line);) {
    if (const auto at = line.find(" @"); at != std::string::npos)
      all.insert(line.substr(at + 2));
  }
  return all;
}

class Descriptors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_knows())
      GTEST_SKIP() << "this kernel lets all of them through";
  }
};

TEST_F(Descriptors, DoNotComeThroughASocketThatTakesNone) {
  auto in = receiver::open("unix://@" + fresh_name() + "?shm=false");
  ASSERT_TRUE(in) << in.error().text();
  EXPECT_EQ(send_descriptor(fresh_name(), SOCK_STREAM), EPERM);
}

TEST_F(Descriptors, OfAnotherUserDoNotComeThroughAnySocket) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can become somebody else";
  auto in = receiver::open("unix://@" + fresh_name());
  ASSERT_TRUE(in) << in.error().text();
  EXPECT_EQ(send_descriptor_as_nobody(fresh_name(), SOCK_STREAM), EPERM);
  in->close();
  node there{2};
  ASSERT_TRUE(there.listen("unix://@" + fresh_name()));
  EXPECT_EQ(send_descriptor_as_nobody(fresh_name(), SOCK_STREAM), EPERM);
}

TEST_F(Descriptors, DoNotComeThroughTheDoorbellOfAnInProcessReceiver) {
  const std::set<std::string> before = abstract_names();
  auto in = receiver::open("mem://descriptors");
  ASSERT_TRUE(in) << in.error().text();
  int tried = 0;
  for (const std::string& name : abstract_names()) {
    if (before.contains(name))
      continue;
    const int how = send_descriptor(name, SOCK_SEQPACKET);
    tried += how == EPERM ? 1 : 0;
    EXPECT_NE(how, 0);
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace atbus
